#pragma once

#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

/// How one device's time is spread over streams, over time, and over CUDA graphs.
namespace nsys_explain::analysis {

/// Tables `streams` (one row per stream: its work and its union of times) and `stream_concurrency` (how long exactly k
/// streams were busy at once, k from 0; the rows add up to the window from the first start to the last end).
std::vector<Table> stream_tables(const RankEvents& events);

/// Table `communication_overlap` by base name of the communication kernels, most time first: how much of their
/// durations compute kernels of the same device ran, too (nsys' nccl_gpu_overlap_trace, with every kind of
/// communication kernel instead of names that begin with nccl). Sums over executions: those that run at once both
/// count. `with_trace`: also table `communication_overlap_trace`, with a row for each.
std::vector<Table> communication_overlap_tables(const RankEvents& events, bool with_trace);

/// Table `gpu_utilisation`: the window in at most 256 spans, each cut up as the budget is: compute, exposed
/// communication, copies, opaque graphs and idle add up to the span. activity_ns is the sum of durations, which
/// concurrent work can push beyond the span (nsys' gpu_time_util).
Table utilisation_table(const RankEvents& events);

/// Table `cuda_graphs`: graphs recorded as one interval, by graph: what runs inside them is invisible.
Table cuda_graphs_table(const RankEvents& events);

}  // namespace nsys_explain::analysis
