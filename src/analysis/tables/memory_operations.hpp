#pragma once

#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

/// Copies, sets and the memory itself of one device. GB = 1e9 bytes.
namespace nsys_explain::analysis {

/// Tables `memory_time` and `memory_size` (as `nsys stats` cuda_gpu_mem_time_sum and cuda_gpu_mem_size_sum, but sizes
/// in bytes), `memory_transfers` (by operation and kinds of memory, with bandwidth: bytes over the sum of durations)
/// and `copy_engines` (by direction: union of its times, what compute hid of it).
std::vector<Table> memory_operation_tables(const RankEvents& events);

/// Tables `gpu_memory` (bytes in use over at most 256 spans of time) and `gpu_memory_summary`, by kind of memory; no
/// rows unless captured with --cuda-memory-usage=true. Use counts from the start of the trace, not what was there
/// before.
std::vector<Table> gpu_memory_tables(const RankEvents& events);

}  // namespace nsys_explain::analysis
