#pragma once

#include <functional>
#include <span>
#include <vector>

#include "local_traces.hpp"
#include "nsys_explain/analysis/options.hpp"
#include "nsys_explain/analysis/rank_events.hpp"
#include "nsys_explain/exchange/communicator.hpp"
#include "nsys_explain/model/table.hpp"

/// What every trace rank tells by itself: tables made where its events were read, one per question, and joined on rank
/// 0 of the tool.
namespace nsys_explain::pipeline {

/// Every analysis of one trace rank by itself, up to `threads` at a time, in an order that does not depend on it. The
/// tables have no trace rank column yet; their times are trace time. `beside` are tasks to run with them.
std::vector<Table> make_rank_tables(const analysis::RankEvents& events, const analysis::AnalysisOptions& options,
                                    int threads, std::vector<std::function<void()>> beside = {});

/// The schema of a rank table once the tables of all trace ranks are joined: with a column `trace_rank` in front.
TableSchema with_trace_rank(TableSchema schema);

/// Applies `to_new_clock` to every point in time of a table.
void move_times(Table& table, const std::function<Nanoseconds(Nanoseconds)>& to_new_clock);

/// Collective: tables of one name from all trace ranks as one table with a column `trace_rank` in front, by trace rank,
/// then as each rank ordered them. The result is on rank 0, empty elsewhere; the local tables are given away, in
/// rounds, so that rank 0 holds hardly more than the result. `trace_ranks` are all of the job, ascending.
std::vector<Table> gather_rank_tables(const exchange::Communicator& communicator,
                                      std::span<const std::int32_t> trace_ranks, std::vector<LocalTrace>& local_traces);

}  // namespace nsys_explain::pipeline
