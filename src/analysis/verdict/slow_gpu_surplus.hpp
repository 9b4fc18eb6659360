#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/verdict/gpu_speed.hpp"

namespace nsys_explain::analysis {

/// The share of the kernel time of each rank, in each bin, that it takes for its GPU being slow; `kernel_ns` and the
/// result are by rank, then bin, `speeds` by rank. 1 - 1 / ratio where the GPU is slow all along. One that is slow only
/// now and then is so in most executions, or its median would not show it: its kernel time in its median bin, relative
/// to what is usual in that bin (lower median of all ranks, so that longer steps are nobody's slowness), is that of a
/// slow GPU, and what a bin lies below that it was faster. 0 for all other ranks, and for bins without kernels.
std::vector<double> slow_gpu_surplus(std::span<const std::int64_t> kernel_ns, std::size_t bins,
                                     std::span<const GpuSpeed> speeds);

}  // namespace nsys_explain::analysis
