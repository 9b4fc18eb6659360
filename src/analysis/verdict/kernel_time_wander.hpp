#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/verdict/gpu_speed.hpp"
#include "nsys_explain/model/time.hpp"

/// GPUs are now a little faster, now a little slower, for many steps on end (temperature, power, what else runs there):
/// neither their kernels nor their steps are independent draws then, and a short capture may be one draw. Kernel times
/// are of one trace rank and one bin (a number of whole steps), by rank, then bin; 0 where not known. Usual ones are
/// what the same kernels take on that rank on average (WorkProfile): held against them speed shows, whichever kernels
/// a bin got.
namespace nsys_explain::analysis {

/// How much the speed of a GPU varies from one stretch of time to the next: relative standard deviation, and the
/// degrees of freedom with which it is known; none: nothing is.
struct SpeedWander {
  double deviation = 0;
  int freedom = 0;
};

/// By rank, beside the middle of three ranks or more, from the means over stretches (batch means) of floor(sqrt(bins
/// that are known)) bins, or of fewer where that makes less than four stretches.
std::vector<SpeedWander> speed_wander(std::span<const std::int64_t> kernel_ns, std::span<const std::int64_t> usual_ns,
                                      std::size_t bins);

/// By rank, from the executions of one kernel (GpuSpeed::spread), where no steps tell when they were: not less than the
/// wander, for that is in it.
std::vector<SpeedWander> spread_of_executions(std::span<const GpuSpeed> speeds);

/// That of a typical one of these GPUs: the lower median of the variances, over the median of a chi-square variable of
/// as many degrees of freedom, which it has instead of the mean. Those who were slow for a while do not count in it
/// while they are fewer than half. Its degrees of freedom are those of a typical GPU.
struct TypicalWander : SpeedWander {
  int freedom_of_half = 0;  ///< of the half of the GPUs that it rests on, together
};
TypicalWander typical_wander(std::span<const SpeedWander> of_gpus);

/// What two such GPUs differ in speed by for as long as a capture takes, relative, with this probability (one-sided).
/// Nothing is claimed of stretches being independent of each other: they are parts of one drift, perhaps.
double usual_drift(const SpeedWander& wander, double probability);

/// Raises the p-values of slow GPUs to that of being this much slower by such a drift (Student's t, over all ranks as
/// GpuSpeed::p_value is); who is not significantly slow then is not slow.
void doubt_wandering_speeds(const TypicalWander& wander, std::span<GpuSpeed> speeds);

/// Kernel time over what the same kernels take on a typical GPU: over what they take on this one, times how much slower
/// it is than its peers (GpuSpeed::ratio, by rank). By rank, then bin; 0 where not known.
std::vector<double> kernel_slowness(std::span<const std::int64_t> kernel_ns, std::span<const std::int64_t> usual_ns,
                                    std::span<const GpuSpeed> speeds, std::size_t bins);

/// By rank: kernel time of its (lower) median bin; 0 where none is known.
std::vector<Nanoseconds> typical_kernel_times(std::span<const std::int64_t> kernel_ns, std::size_t bins);

}  // namespace nsys_explain::analysis
