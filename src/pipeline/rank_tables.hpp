#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "local_traces.hpp"
#include "nsys_explain/analysis/options.hpp"
#include "nsys_explain/analysis/rank_events.hpp"
#include "nsys_explain/exchange/communicator.hpp"
#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/table_extent.hpp"

/// What every trace rank tells by itself: tables made where its events were read, one per question, and joined on rank
/// 0 of the tool.
namespace nsys_explain::pipeline {

/// Every analysis of one trace rank by itself, up to `threads` at a time, in an order that does not depend on it. The
/// tables have no trace rank column yet; their times are trace time. `beside` is done at the same time, `after_ranges`
/// once the tables of NVTX ranges are there, because both of these take much memory.
std::vector<Table> make_rank_tables(const analysis::RankEvents& events, const analysis::AnalysisOptions& options,
                                    int threads, const std::function<void()>& after_ranges,
                                    const std::function<void()>& beside);

/// The schema of a rank table once the tables of all trace ranks are joined: with a column `trace_rank` in front.
TableSchema with_trace_rank(TableSchema schema);

/// Applies `to_new_clock` to every point in time of a table.
void move_times(Table& table, const std::function<Nanoseconds(Nanoseconds)>& to_new_clock);

/// Whether a table has a row per event and nobody looks at it as a whole: such tables stay with their trace ranks until
/// they are written, for together they are most of what rank 0 would hold.
bool is_long(const TableSchema& schema);

/// Collective: tables of one name from all trace ranks as one table with a column `trace_rank` in front, by trace rank,
/// then as each rank ordered them; long ones without their rows. The result is on rank 0, empty elsewhere; the local
/// tables are given away, in rounds, so that rank 0 holds hardly more than the result. `trace_ranks` are all of the
/// job, ascending.
std::vector<Table> gather_rank_tables(const exchange::Communicator& communicator,
                                      std::span<const std::int32_t> trace_ranks, std::vector<LocalTrace>& local_traces);

/// Collective: of all trace ranks' rows, with `trace_rank` in front, by name of the long table, on every tool rank.
std::map<std::string, TableExtent> measure_long_tables(const exchange::Communicator& communicator,
                                                       const std::vector<LocalTrace>& local_traces);

/// Collective: shows the rows of the long tables to rank 0, those of some trace ranks at a time, and gives them away.
/// `use` is called on every tool rank equally often, with no tables but on rank 0.
void gather_long_tables(const exchange::Communicator& communicator, std::span<const std::int32_t> trace_ranks,
                        std::vector<LocalTrace>& local_traces,
                        const std::function<void(const std::vector<Table>&)>& use);

}  // namespace nsys_explain::pipeline
