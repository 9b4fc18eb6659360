#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/replay/replay.hpp"
#include "nsys_explain/model/time.hpp"

namespace nsys_explain::analysis {

struct StepLengths {
  std::vector<double> lengths_ns;
  std::vector<std::size_t> steps;  ///< numbers, parallel to the lengths
  Nanoseconds apart_ns = 0;        ///< of those apart, all together
};

/// From the latest exit of one step to that of the next; steps that hold none are left out. `steps_apart` (ascending)
/// are no part of the mean step (window.hpp). What one does behind its last collective lies in the step after it,
/// so that one is apart, too.
StepLengths step_lengths(const ReplayedTime& replayed, Nanoseconds start_ns, std::span<const std::int32_t> steps_apart);

/// |predicted / measured - 1| of steps whose length was predicted from another step.
struct ReplayError {
  std::size_t steps = 0;
  double median = 0, most = 0;  ///< 90% are below `most`
};

/// `predicted`: of a replay where the next step is usual. None where fewer than eight steps are predicted.
ReplayError measure_error(const StepLengths& measured, const StepLengths& predicted);

/// What a replay saves of the elapsed time; shares lie between 0 and 1.
struct Saving {
  double share = 0;
  /// By chance alone, by how its steps vary (95%), a job without the fault differs as much; 0: too few steps tell.
  double twin_differs = 0;
  /// 95% interval of the mean over steps; empty: it happened once, it would be from 0 to 1, or nothing tells how much
  /// the replay errs.
  std::optional<double> low, high;
  /// In how many steps nearly all of it is saved, where these are fewer than eight and than half of all, and what
  /// is saved; 0: in more.
  std::int64_t pauses = 0;
  Nanoseconds pauses_ns = 0;
};

/// Where trace ranks share a GPU, whoever works differently leaves the others more or less of it; the replay keeps
/// their kernels as long as they were. One standard deviation of true savings, as a share of the told one: that of
/// greatest likelihood for 15 recordings whose ranks share one GPU (docs/accuracy.md), 0.3 with and 0.2 without the
/// worst.
constexpr double shared_gpu_error = 0.3;

/// `before_ns`, `after_ns`: the durations of the steps, equally many; `saved_ns` of `elapsed_ns` in all; `error`: of
/// the replay, as a share of a step, empty: not known; `premise_error`: of its premises, as a share of the saving. Both
/// are one standard deviation.
///
///     100 steps save 2 ms each of 20:  10%, an interval as wide as the steps differ and the replay errs
///     two of them save 2 s each, the others nothing:  two pauses of 4 s in all; an interval from 0 to 1 is none
Saving measure_saving(std::span<const double> before_ns, std::span<const double> after_ns, Nanoseconds saved_ns,
                      Nanoseconds elapsed_ns, std::optional<double> error, double premise_error);

}  // namespace nsys_explain::analysis
