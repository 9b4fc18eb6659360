#include "pipeline/read/host_rows.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "analysis/tables/tables.hpp"
#include "pipeline/read/rank_tables.hpp"

namespace nsys_explain::pipeline {

Table joined_by_trace_rank(const Table& one, const Table& other) {
  const auto ranks_of = [](const Table& table) -> const auto& {
    return std::get<std::vector<std::int64_t>>(table.columns.front());
  };
  const auto &of_one = ranks_of(one), &of_other = ranks_of(other);
  Table joined = make_table(one.schema);
  for (std::size_t i = 0, k = 0; i < of_one.size() || k < of_other.size();) {
    const bool is_one = k == of_other.size() || (i < of_one.size() && of_one[i] < of_other[k]);
    std::size_t& next = is_one ? i : k;
    const auto& ranks = is_one ? of_one : of_other;
    const auto begin = ranks.begin() + static_cast<std::ptrdiff_t>(next);
    const auto count = static_cast<std::size_t>(std::upper_bound(begin, ranks.end(), *begin) - begin);
    append_run(is_one ? one : other, next, count, joined);
    next += count;
  }
  return joined;
}

void add_host_rows(const exchange::Communicator& communicator, const JobRanks& job,
                   std::vector<LocalTrace>& local_traces, JobReport& report) {
  report.host_processes = job.hosts;
  if (job.hosts.empty()) return;
  std::vector<std::int32_t> numbers;
  for (const TraceRankIdentity& host : job.hosts) numbers.push_back(host.trace_rank);
  for (Table& rows : gather_rank_tables(communicator, numbers, local_traces)) {
    const auto same = std::find_if(report.tables.begin(), report.tables.end(),
                                   [&](const Table& table) { return table.schema.name == rows.schema.name; });
    if (same == report.tables.end()) {
      report.tables.push_back(std::move(rows));
    } else {
      *same = joined_by_trace_rank(*same, rows);
    }
  }
  if (report.trace_ranks.empty()) report.run_facts = analysis::summarise_run_facts(report.tables);
}

}  // namespace nsys_explain::pipeline
