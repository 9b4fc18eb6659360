#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/tables/side_files.hpp"
#include "analysis/trace/launches.hpp"
#include "analysis/trace/rank_events.hpp"
#include "exchange/communicator.hpp"
#include "nsys_explain/model/table.hpp"
#include "pipeline/read/local_traces.hpp"
#include "pipeline/tool_rank/slabs.hpp"

/// What every trace rank tells by itself: tables made where its events were read, one per question, and joined on rank
/// 0 of the tool.
namespace nsys_explain::pipeline {

/// What is known of a device before its tables are made. What is missing is found out then.
struct KnownOfDevice {
  std::optional<analysis::DeviceLaunches> launches;
  std::optional<Table> messages;
};

/// Every analysis of one trace rank by itself, up to `threads` at a time, in an order that does not depend on it. The
/// tables have no trace rank column yet; their times are trace time. `with_calls`: the same with the calls in which the
/// host communicates as kernels, for what tells idle time and communication. `beside` is done at the same time: the
/// longest is to come last, to be begun first.
std::vector<Table> make_rank_tables(const analysis::RankEvents& events, const analysis::RankEvents& with_calls,
                                    const analysis::AnalysisOptions& options, int threads, KnownOfDevice known,
                                    const std::vector<std::function<void()>>& beside);

/// A process without GPU work, with the tables that need none: CUDA calls, NVTX ranges, calls into the operating
/// system, CPU samples, the schedule of threads, overheads, facts of the run.
LocalRank read_host_process(const Trace& trace, const TraceRankKey& key);

/// Every point in time of a table from trace time to job time.
inline void move_times(Table& table, const clock::TraceClock& clock) {
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    if (table.schema.columns[c].kind != ColumnKind::time) continue;
    for (std::int64_t& time_ns : std::get<std::vector<std::int64_t>>(table.columns[c])) {
      time_ns = clock(TraceTime(time_ns)).ns;
    }
  }
}

/// Collective: tables of one name from all trace ranks as one table with a column `trace_rank` in front, by trace rank,
/// then as each rank ordered them; long ones without their rows. The result is on rank 0, empty elsewhere; the local
/// tables are given away, in rounds, so that rank 0 holds hardly more than the result. `trace_ranks`: whose, ascending.
std::vector<Table> gather_rank_tables(const exchange::Communicator& communicator,
                                      std::span<const std::int32_t> trace_ranks, std::vector<LocalTrace>& local_traces);

/// Where the rows of a long table lie.
struct LongRows {
  TableExtent extent;                               ///< with `trace_rank` in front
  std::map<std::int32_t, std::int64_t> first_rows;  ///< of each trace rank
  std::size_t trace_ranks = 0;                      ///< that have rows
};

/// Collective: by name of the long table, on every tool rank. `trace_ranks` are all that have rows, ascending.
std::map<std::string, LongRows> measure_long_tables(const exchange::Communicator& communicator,
                                                    std::span<const std::int32_t> trace_ranks,
                                                    std::vector<LocalTrace>& local_traces);

/// Collective: the first rows of the long tables of each trace rank, up to `most` of the joined table's schema and the
/// trace rank, as tables with `trace_rank` in front, on rank 0.
std::vector<Table> gather_first_rows(const exchange::Communicator& communicator,
                                     std::span<const std::int32_t> trace_ranks, std::vector<LocalTrace>& local_traces,
                                     const std::function<std::size_t(const TableSchema&, std::int32_t)>& most);

/// Gives away those of rows [first, end) of a long table that lie here.
std::vector<RowRun> take_long_rows(const std::string& name, const LongRows& table, std::int64_t first, std::int64_t end,
                                   std::vector<LocalTrace>& local_traces);

}  // namespace nsys_explain::pipeline
