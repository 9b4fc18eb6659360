#include "analysis/tables/traced_calls.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/statistics/statistics.hpp"
#include "analysis/trace/gpu_activity.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis {
namespace {

using CallNames = std::pair<std::string_view, std::string_view>;
using CallSummary = std::pair<CallNames, Statistics>;

/// Most time first.
std::vector<CallSummary> summarised_calls(std::map<CallNames, std::vector<std::int64_t>>& durations) {
  std::vector<CallSummary> rows;
  for (auto& [names, of_names] : durations) rows.emplace_back(names, summarise(of_names));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const CallSummary& a, const CallSummary& b) { return a.second.total > b.second.total; });
  return rows;
}

}  // namespace

Table call_stacks_table(const RankEvents& events) {
  constexpr std::size_t stacks_kept = 50;
  Table table = make_table(schema::call_stacks);
  if (!speaks_for_process(events.process, events.device)) return table;
  const std::vector<std::string>& strings = events.trace.strings;
  std::map<CallNames, std::vector<std::int64_t>> durations;
  for (const TracedCall& call : events.process.traced_calls)
    durations[{strings[call.name], strings[call.stack]}].push_back(call.end_ns - call.start_ns);
  std::vector<CallSummary> rows = summarised_calls(durations);
  rows.resize(std::min(rows.size(), stacks_kept));
  RowWriter row(table);
  for (const auto& [names, s] : rows) row << names.first << names.second << s.count << s.total << s.max;
  return table;
}

Table library_calls_table(const RankEvents& events) {
  Table table = make_table(schema::library_calls);
  if (!speaks_for_process(events.process, events.device)) return table;
  std::map<CallNames, std::vector<std::int64_t>> durations;
  for (const LibraryCall& call : events.process.library_calls)
    durations[{call.is_cudnn ? "cuDNN" : "cuBLAS", events.trace.strings[call.name]}].push_back(call.end_ns -
                                                                                               call.start_ns);
  RowWriter row(table);
  for (const auto& [names, s] : summarised_calls(durations)) {
    row << names.first << names.second;
    write_statistics(row, s);
  }
  return table;
}

}  // namespace nsys_explain::analysis
