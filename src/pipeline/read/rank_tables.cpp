#include "pipeline/read/rank_tables.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "analysis/links/links.hpp"
#include "analysis/questions/question.hpp"
#include "analysis/tables/categories.hpp"
#include "analysis/tables/side_files.hpp"
#include "analysis/tables/tables.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "pipeline/read/table_join.hpp"
#include "pipeline/tool_rank/pack.hpp"
#include "pipeline/tool_rank/threads.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Of a long table, with room to grow.
constexpr std::size_t most_columns = 32;

/// So many that a round is worth its messages, so few that what is under way is little beside what is there.
constexpr std::size_t ranks_per_round = 256;

/// What travels of a rank's tables in a round, their times as they were.
using TakeTables = std::function<std::vector<Table>(std::int32_t trace_rank, PackedTables& of_rank)>;

/// All but the rows of long tables, which stay.
std::vector<Table> take_short_tables(std::int32_t, PackedTables& of_rank) {
  std::vector<Table> taken = of_rank.short_tables();
  of_rank.release_short_tables();
  return taken;
}

/// Collective: on rank 0 the tables of these trace ranks, ascending, as each tool rank has joined its own.
std::vector<JoinedTable> gather_round(const exchange::Communicator& communicator,
                                      std::span<const std::int32_t> trace_ranks, std::vector<LocalTrace>& local_traces,
                                      const TakeTables& take) {
  std::vector<LocalRank*> own;
  for_each_with_rows(local_traces, [&](LocalRank& rank) {
    if (std::binary_search(trace_ranks.begin(), trace_ranks.end(), rank.trace_rank)) own.push_back(&rank);
  });
  std::sort(own.begin(), own.end(),
            [](const LocalRank* a, const LocalRank* b) { return a->trace_rank < b->trace_rank; });
  TableJoin join;
  for (LocalRank* rank : own) {
    std::vector<Table> tables = take(rank->trace_rank, rank->tables);
    for (Table& table : tables) move_times(table, rank->clock);
    join.add(rank->trace_rank, std::move(tables));
  }
  std::vector<JoinedTable> all = std::move(join).take();
  const bool travels = !communicator.is_root();  // what is on rank 0 stays as it is
  const std::string bytes = travels ? pack(all) : std::string();
  if (travels) all.clear();
  const auto gathered = communicator.gather(std::span<const char>(bytes));
  for (int r = 1; communicator.is_root() && r < communicator.size(); ++r) {
    const std::span<const char> part = gathered.of(r);
    auto tables = unpack<std::vector<JoinedTable>>(std::string_view(part.data(), part.size()));
    std::move(tables.begin(), tables.end(), std::back_inserter(all));
  }
  return all;
}

/// Collective: what `take` takes of each trace rank's tables, joined on rank 0, in rounds.
std::vector<Table> join_rank_tables(const exchange::Communicator& communicator,
                                    std::span<const std::int32_t> trace_ranks, std::vector<LocalTrace>& local_traces,
                                    const TakeTables& take) {
  TableJoin join;
  for (std::size_t first = 0; first < trace_ranks.size(); first += ranks_per_round) {
    const auto round = trace_ranks.subspan(first, std::min(ranks_per_round, trace_ranks.size() - first));
    join.add(gather_round(communicator, round, local_traces, take));
  }
  std::vector<Table> tables;
  for (JoinedTable& table : std::move(join).take()) tables.push_back(std::move(table.rows));
  return tables;
}

/// What NVTX ranges tell. They share who launched what (`known`, where it is): to find out takes longer than most
/// analyses.
std::vector<Table> range_tables(const analysis::RankEvents& events, std::optional<analysis::DeviceLaunches> known,
                                const std::vector<analysis::PhaseRule>& rules) {
  const analysis::DeviceLaunches launches = known ? *std::move(known) : analysis::collect_launches(events);
  std::vector<Table> tables = analysis::nvtx_tables(events, launches);
  std::vector<Table> phases = analysis::phase_tables(events, launches, rules);
  std::move(phases.begin(), phases.end(), std::back_inserter(tables));
  return tables;
}

using One = Table (*)(const analysis::RankEvents&);
using Several = std::vector<Table> (*)(const analysis::RankEvents&);
using Analysis = std::variant<One, Several, std::function<std::vector<Table>(const analysis::RankEvents&)>>;

/// Their tables in the order of the analyses.
std::vector<Table> run_analyses(std::span<const Analysis> analyses, const analysis::RankEvents& events, int threads) {
  std::vector<std::vector<Table>> parts(analyses.size());
  std::vector<std::function<void()>> tasks;
  // From the last one, since the longest are there: begun at the end they would keep one thread busy alone. What is
  // done beside leaves more behind than tables do, so it comes after what takes most meanwhile.
  for (std::size_t i = analyses.size(); i-- > 0;) {
    tasks.emplace_back([&, i] {
      std::visit(
          [&](const auto& analyse) {
            if constexpr (std::is_same_v<std::decay_t<decltype(analyse)>, One>) {
              parts[i].push_back(analyse(events));
            } else {
              parts[i] = analyse(events);
            }
          },
          analyses[i]);
    });
  }
  run_in_parallel(tasks, threads);
  std::vector<Table> tables;
  for (std::vector<Table>& part : parts) std::move(part.begin(), part.end(), std::back_inserter(tables));
  return tables;
}

}  // namespace

std::vector<Table> make_rank_tables(const analysis::RankEvents& events, const analysis::RankEvents& with_calls,
                                    const analysis::AnalysisOptions& options, int threads, KnownOfDevice known,
                                    const std::vector<std::function<void()>>& beside) {
  std::vector<Analysis> analyses = {
      analysis::nvlink_table,
      analysis::nvlink_over_time_table,
      analysis::network_table,
      [&](const analysis::RankEvents& e) {
        std::vector<Table> tables;
        tables.push_back(known.messages ? *std::move(known.messages) : analysis::messages_table(e));
        return tables;
      },
      analysis::kernel_tables,
      analysis::kernel_histogram_table,
      analysis::kernel_pacing_tables,
      analysis::elapsed_table};
  for (const std::function<void()>& other : beside) {
    analyses.emplace_back([&](const analysis::RankEvents&) {
      other();
      return std::vector<Table>();
    });
  }
  const Analysis before_those[] = {
      analysis::launch_tables,       analysis::api_tables,
      analysis::gpu_counter_tables,  analysis::expert_rule_tables,
      analysis::thread_states_table, analysis::call_stacks_table,
      analysis::library_calls_table, [&](const analysis::RankEvents&) { return analysis::idle_tables(with_calls); },
      analysis::stream_tables,       analysis::utilisation_table,
      analysis::cuda_graphs_table,   analysis::memory_operation_tables,
      analysis::gpu_memory_tables};
  std::copy(std::begin(before_those), std::end(before_those), std::back_inserter(analyses));
  for (const analysis::Question& question : analysis::all_questions())
    if (question.rows != nullptr) analyses.emplace_back(question.rows);
  analyses.emplace_back([&](const analysis::RankEvents& e) {
    return range_tables(e, std::exchange(known.launches, std::nullopt), options.phase_rules);
  });
  analyses.emplace_back([&](const analysis::RankEvents&) {
    return analysis::communication_overlap_tables(with_calls, options.gpu_trace);
  });
  if (options.gpu_trace) analyses.emplace_back(analysis::gpu_trace_table);
  analyses.emplace_back([&](const analysis::RankEvents& e) { return analysis::roofline_tables(e, options.roofline); });
  analyses.emplace_back(
      [&](const analysis::RankEvents& e) { return analysis::gpu_sample_tables(e, options.gpu_samples); });
  return run_analyses(analyses, events, threads);
}

LocalRank read_host_process(const Trace& trace, const TraceRankKey& key) {
  const auto process = std::find_if(trace.processes.begin(), trace.processes.end(),
                                    [&](const ProcessTrace& one) { return one.global_pid == key.global_pid; });
  const DeviceTrace none;
  const LaunchIndex launches(process->api_calls);
  const analysis::RankEvents events{trace, *process, none, launches, {}, {}};
  std::vector<Table> tables = analysis::host_range_tables(events);
  for (Table& table : analysis::api_tables(events)) tables.push_back(std::move(table));
  for (const auto& analyse :
       {analysis::thread_states_table, analysis::call_stacks_table, analysis::library_calls_table})
    tables.push_back(analyse(events));
  for (const analysis::Question& question : analysis::all_questions())
    if (question.of_hosts) tables.push_back(question.rows(events));
  LocalRank host;
  host.key = key;
  host.tables = PackedTables(std::move(tables));
  return host;
}

std::vector<Table> gather_rank_tables(const exchange::Communicator& communicator,
                                      std::span<const std::int32_t> trace_ranks,
                                      std::vector<LocalTrace>& local_traces) {
  return join_rank_tables(communicator, trace_ranks, local_traces, take_short_tables);
}

std::map<std::string, LongRows> measure_long_tables(const exchange::Communicator& communicator,
                                                    std::span<const std::int32_t> trace_ranks,
                                                    std::vector<LocalTrace>& local_traces) {
  const std::vector<std::string_view> names = long_table_names();
  // By table and trace rank, by table and column.
  std::vector<std::int64_t> rows(names.size() * trace_ranks.size(), 0);
  std::vector<std::int64_t> longest(names.size() * most_columns, 0);
  for_each_with_rows(local_traces, [&](const LocalRank& rank) {
    const std::size_t index = index_of_trace_rank(trace_ranks, rank.trace_rank);
    for (const PackedRowRun& run : rank.tables.long_runs()) {
      const auto i = static_cast<std::size_t>(std::find(names.begin(), names.end(), run.table) - names.begin());
      rows[i * trace_ranks.size() + index] += static_cast<std::int64_t>(run.extent.rows);
      for (std::size_t c = 0; c < run.extent.longest_texts.size(); ++c) {
        std::int64_t& of_column = longest.at(i * most_columns + 1 + c);  // behind `trace_rank`
        of_column = std::max(of_column, static_cast<std::int64_t>(run.extent.longest_texts[c]));
      }
    }
  });
  rows = communicator.sum(rows);
  longest = communicator.maximum(longest);
  std::map<std::string, LongRows> tables;
  for (std::size_t i = 0; i < names.size(); ++i) {
    LongRows& table = tables[std::string(names[i])];
    std::int64_t all = 0;
    for (std::size_t r = 0; r < trace_ranks.size(); ++r) {
      table.first_rows[trace_ranks[r]] = all;
      table.trace_ranks += rows[i * trace_ranks.size() + r] > 0 ? 1 : 0;
      all += rows[i * trace_ranks.size() + r];
    }
    const auto first = longest.begin() + static_cast<std::ptrdiff_t>(i * most_columns);
    table.extent = {static_cast<std::size_t>(all), std::vector<std::size_t>(first, first + most_columns)};
  }
  return tables;
}

std::vector<Table> gather_first_rows(const exchange::Communicator& communicator,
                                     std::span<const std::int32_t> trace_ranks, std::vector<LocalTrace>& local_traces,
                                     const std::function<std::size_t(const TableSchema&, std::int32_t)>& most) {
  const auto take_first = [&](std::int32_t trace_rank, PackedTables& of_rank) {
    std::map<std::string, Table> taken;
    std::map<std::string, std::size_t> wanted;
    for (const PackedRowRun& run : of_rank.long_runs()) {
      const auto [left, is_new] = wanted.try_emplace(run.table, 0);
      if (is_new) left->second = most(with_trace_rank(schema_of(run)), trace_rank);
      if (left->second == 0) continue;
      const Table rows = unpacked(run);
      const std::size_t count = std::min(rows.row_count(), left->second);
      append_run(rows, 0, count, taken.try_emplace(run.table, make_table(rows.schema)).first->second);
      left->second -= count;
    }
    std::vector<Table> tables;
    for (auto& [name, table] : taken) tables.push_back(std::move(table));
    return tables;
  };
  return join_rank_tables(communicator, trace_ranks, local_traces, take_first);
}

std::vector<RowRun> take_long_rows(const std::string& name, const LongRows& table, std::int64_t first, std::int64_t end,
                                   std::vector<LocalTrace>& local_traces) {
  std::vector<RowRun> runs;
  std::optional<TableSchema> schema;
  for_each_with_rows(local_traces, [&](LocalRank& rank) {
    std::int64_t own_end = table.first_rows.at(rank.trace_rank);
    for (std::size_t r = 0; r < rank.tables.long_runs().size() && own_end < end; ++r) {
      const PackedRowRun& packed = rank.tables.long_runs()[r];
      if (packed.table != name) continue;
      const std::int64_t own_first = own_end;
      own_end += static_cast<std::int64_t>(packed.extent.rows);
      const std::int64_t run_first = std::max(first, own_first), run_end = std::min(end, own_end);
      if (run_first >= run_end) continue;
      Table rows = unpacked(packed);
      move_times(rows, rank.clock);
      if (!schema) schema = with_trace_rank(rows.schema);
      RowRun run{run_first, make_table(*schema)};
      append_rows_of(rank.trace_rank, rows, static_cast<std::size_t>(run_first - own_first),
                     static_cast<std::size_t>(run_end - run_first), run.rows);
      runs.push_back(std::move(run));
      if (run_end == own_end) rank.tables.release(r);
    }
  });
  return runs;
}

}  // namespace nsys_explain::pipeline
