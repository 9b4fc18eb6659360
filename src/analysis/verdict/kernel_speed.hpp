#pragma once

#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/time.hpp"

/// How fast kernels ran: against those of peers, and over the run.
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

// GPUs that idle because their host is late, against all others of the job: it needs no peers of a role, since no
// role's GPU has to wait for its host.

/// The share of each rank's idle time (by index) that is more than usual: in the median bin, beyond the (lower) median
/// of all ranks. 0 where that is below 1% of the rank's kernel time, or where chance explains it: if in
/// every bin ranks were dealt out at random (caused_wait_p_values, 1e-3 over all ranks). `idle_ns` and `kernel_ns` are
/// by rank, then bin; bins without kernels are not known and not looked at.
std::vector<double> host_idle_surplus(std::span<const std::int64_t> idle_ns, std::span<const std::int64_t> kernel_ns,
                                      std::size_t bins);

// The same kernel on different GPUs: finds a slow GPU without any communication.

/// GpuSpeed::p_value of a slow GPU is below it.
inline constexpr double significantly_slow = 0.01;

/// From the joined `kernels_by_launch` of all trace ranks. A kernel is the same where name, grid and block are, so that
/// different work rarely passes for slow work. Communication kernels are left out: they wait for others. A trace rank
/// is compared where it and at least one peer ran the kernel five times or more.
///
/// - `kernel_peers`: the 100 kernels with most time, by trace rank: its median against the median of the peers'
/// medians.
///   z is the logarithm of that ratio in standard errors: of both medians (1.2533 s / (median sqrt n)), of the spread
///   between peers (1.4826 MAD of their logarithms) and of the GPU clock's steps of 32 ns.
/// - `gpu_speed`, one row per trace rank compared: ratio is the median of its kernels' ratios weighted by their time;
///   p_value that of all z combined (Stouffer, weighted by time, one-sided), times the number of trace ranks. slow is 1
///   where three kernels or more were compared, p_value < 0.01, the ratio is at least 1.02, and it stands out from the
///   other trace ranks' ratios by three of their robust standard deviations (with only two trace ranks: the ratio is at
///   least 1.05). This p-value takes executions as independent, which they are not: it is the least that can be
///   asked. doubt_wandering_speeds knows better, and correct_gpu_speeds writes that into the table.
std::vector<Table> kernel_peer_tables(const Table& kernels_by_launch);

/// Table `kernel_imbalance` from the joined `kernels`: by kernel name that two or more trace ranks ran, the sum of
/// durations of the mean and of the largest trace rank, and their ratio (Pipit's load imbalance); most time first.
Table kernel_imbalance_table(const Table& kernels);

// GPUs are now a little faster, now a little slower, for many steps on end (temperature, power, what else runs there):
// neither their kernels nor their steps are independent draws then, and a short capture may be one draw. Kernel times
// are of one trace rank and one bin (a number of whole steps), by rank, then bin; 0 where not known. Usual ones are
// what the same kernels take on that rank on average (WorkProfile): held against them speed shows, whichever kernels
// a bin got.

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
