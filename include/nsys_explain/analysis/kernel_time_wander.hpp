#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nsys_explain/model/activity_summary.hpp"
#include "nsys_explain/model/time.hpp"

/// GPUs are now a little faster, now a little slower, for many steps on end (temperature, power, what else runs there):
/// neither their kernels nor their steps are independent draws then. Kernel times are of one trace rank and one bin (a
/// number of whole steps), by rank, then bin; 0 where not known.
namespace nsys_explain::analysis {

/// By rank: standard deviation of the part of its kernel time that is alike in neighbouring bins; 0 where nothing is.
/// From the covariance of neighbours (Gnanadesikan and Kettenring 1972: by the robust spread of their sums and
/// differences), so that neither independent noise nor single long bins count, nor two levels of which one is rare.
std::vector<Nanoseconds> kernel_time_wander(std::span<const std::int64_t> kernel_ns, std::size_t bins);

/// Raises the p-values of slow GPUs to what time allows: kernels of one step are slow together, and so are neighbouring
/// steps, so that many executions prove no more than the few independent stretches of time that they come from. These
/// count as in batch means: the square root of the bins in each. What a GPU wanders by is the typical (lower median)
/// `wander_ns` of all ranks as a share of their kernel time; Student's t, over all ranks as GpuSpeed::p_value is.
void doubt_wandering_speeds(std::span<const std::int64_t> kernel_ns, std::size_t bins,
                            std::span<const Nanoseconds> wander_ns, std::span<GpuSpeed> speeds);

/// Degrees of freedom of a wander that so many bins show, at least 2: one less than the batches of batch means.
int wander_freedom(std::size_t bins);

}  // namespace nsys_explain::analysis
