#pragma once

#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// Table `gpu_trace`: a row per kernel, copy, set and graph of the device, by start (nsys' cuda_gpu_trace), with the
/// call that launched it. As many rows as the device has activities, so it is made where the user asks for it.
Table gpu_trace_table(const RankEvents& events);

/// Table `cuda_api_gpu`: calls of the host, kernels and memory operations in one list of each trace rank, most time
/// first (nsys' cuda_api_gpu_sum); of the joined tables of all trace ranks.
Table cuda_api_gpu_table(const std::vector<Table>& rank_tables);

}  // namespace nsys_explain::analysis
