#pragma once

#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

/// The six rules of `nsys analyze` with its default limits, joined on process and correlation id (nsys' own join on the
/// correlation id alone pairs rows of different processes).
namespace nsys_explain::analysis {

/// Tables `expert_rules` (per rule: cases, their time and bytes) and `expert_rule_cases` (per rule the 50 longest by
/// duration, then start):
///
/// | rule | a case |
/// |---|---|
/// | cuda_memcpy_async | an Async copy call with pageable memory at either end: it blocks like a synchronous one |
/// | cuda_memcpy_sync | a copy call without Async, except up to 64,000 bytes to the device and copies within it |
/// | cuda_memset_sync | a set call without Async on pinned or managed memory |
/// | cuda_api_sync | cudaDeviceSynchronize or cudaStreamSynchronize |
/// | gpu_gaps | 500 ms or more without GPU activity between two activities; profiler overhead counts as activity |
/// | gpu_time_util | a run of 1/30 parts of the device's window in which durations add up to less than half |
///
/// Durations are those of the GPU activity for copies and sets, of the call for synchronisation.
std::vector<Table> expert_rule_tables(const RankEvents& events);

}  // namespace nsys_explain::analysis
