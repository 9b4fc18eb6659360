#pragma once

#include <vector>

#include "analysis/trace/launches.hpp"
#include "nsys_explain/model/table.hpp"

/// NVTX ranges of one process, alone and with the GPU work launched inside them. Definitions are those of `nsys stats`
/// (nvtx_sum, nvtx_pushpop_sum, nvtx_pushpop_trace, nvtx_gpu_proj_sum, nvtx_gpu_proj_trace, nvtx_kern_sum), with two
/// differences: labels that differ only in PyTorch's operator number are one row (range_name), and GPU work is joined
/// to its launch within the process. Time is near linear in ranges plus operations.
namespace nsys_explain::analysis {

/// Rows that a table of names keeps for each trace rank; the others are added up in a row named other_ranges.
inline constexpr std::size_t most_names = 2000;
inline constexpr std::string_view other_ranges = "(all other ranges)";
/// Rows that a table of single ranges keeps for each trace rank: the longest.
inline constexpr std::size_t most_traced = 1000;

/// The tables
/// - nvtx_sum: host time of ranges by domain, name and style, most time first. Open ranges end at the last event of the
///   trace. `own_ns` leaves out push/pop ranges nested directly inside. For the first trace rank of a process only.
/// - nvtx_trace: the longest push/pop ranges one by one with nesting level, parent and time of children. Same.
/// - nvtx_gpu_projection: from the first start to the last end of GPU work launched inside a range on its thread, gaps
///   included; ranges that ended on another thread or launched nothing do not count.
/// - nvtx_gpu_projection_trace: the longest of these one by one.
/// - nvtx_kernels: kernels launched inside ranges; a kernel counts for every range around it.
/// - nvtx_coverage: one row: how much kernel time lies inside ranges at all, NCCL's own not counted.
std::vector<Table> nvtx_tables(const RankEvents& events, const DeviceLaunches& launches);

/// The first two, which tell nothing of GPUs.
std::vector<Table> host_range_tables(const RankEvents& events);

}  // namespace nsys_explain::analysis
