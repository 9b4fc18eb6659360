#pragma once

#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

/// What ran on the GPU of one trace rank, summed by kernel. Kernels of CUDA graphs traced by node count; graphs
/// recorded as one interval do not (table `cuda_graphs`).
namespace nsys_explain::analysis {

/// Tables `kernels` (by demangled name, as `nsys stats` cuda_gpu_kern_sum), `kernels_by_base_name` (:base),
/// `kernels_by_mangled_name` (:mangled; no rows where the export has none) and `kernels_by_launch` (by name, grid and
/// block, cuda_gpu_kern_gb_sum): one row each, most time first (ties by name).
///
/// share_percent is the share of the sum of all kernel durations, not of wall time. Tail score = (p99 - median) x
/// count: the time that the slowest executions cost beyond the usual one. tail: `outliers` where max > 2 x median,
/// `systematic` where p99 > 1.5 x median, too.
std::vector<Table> kernel_tables(const RankEvents& events);

/// Table `kernel_histogram`: durations by demangled name in buckets of a quarter doubling; only buckets that occur.
Table kernel_histogram_table(const RankEvents& events);

/// Tables `kernel_pacing` (start-to-start intervals by base name, for every name that ran twice) and
/// `kernel_progress` (when every k-th execution started, for the base names with most time: bounded).
std::vector<Table> kernel_pacing_tables(const RankEvents& events);

}  // namespace nsys_explain::analysis
