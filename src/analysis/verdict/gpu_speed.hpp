#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// One GPU against those that run the same kernels: a row of the table gpu_speed.
struct GpuSpeed {
  std::int32_t trace_rank = -1;
  std::int64_t kernels = 0;       ///< compared
  double ratio = 1, p_value = 1;  ///< of their durations; of being this slow by chance, over all trace ranks
  bool slow = false;              ///< significant, at least 2%, and unlike the others
  double spread = 0;              ///< relative standard deviation of one kernel's executions, of a typical kernel
  std::int64_t executions = 0;    ///< likewise, their number

  template <class Archive>
  void serialize(Archive& archive) {
    archive(trace_rank, kernels, ratio, p_value, slow, spread, executions);
  }
};

/// By trace rank; empty where the table is not among them.
std::vector<GpuSpeed> gpu_speeds(const std::vector<Table>& tables);

/// Writes what is known better by now into these rows: p_value and slow, by trace rank. Without such a table, nothing.
void correct_gpu_speeds(std::span<const GpuSpeed> speeds, std::vector<Table>& tables);

/// The share of the kernel time of each rank, in each bin, that it takes for its GPU being slow; `kernel_ns` and the
/// result are by rank, then bin, `speeds` by rank. 1 - 1 / ratio where the GPU is slow all along. One that is slow only
/// now and then is so in most executions, or its median would not show it: its kernel time in its median bin, relative
/// to what is usual in that bin (lower median of all ranks, so that longer steps are nobody's slowness), is that of a
/// slow GPU, and what a bin lies below that it was faster. 0 for all other ranks, and for bins without kernels.
std::vector<double> slow_gpu_surplus(std::span<const std::int64_t> kernel_ns, std::size_t bins,
                                     std::span<const GpuSpeed> speeds);

}  // namespace nsys_explain::analysis
