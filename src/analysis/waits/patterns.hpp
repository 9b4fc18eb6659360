#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// When a straggler delays the job. Steps count from the first of the series.
struct PatternVerdict {
  Pattern pattern = Pattern::persistent;
  std::size_t first = 0, last = 0;    ///< the steps between which it does
  std::optional<std::size_t> period;  ///< periodic: steps from one delay to the next
};

/// Pattern of a series of delays, not below 0, one per step (or per span of time). A step counts as delayed if its
/// delay is more than an eighth of that of a typical delayed step, and more than `noise_ns`. Periodic: at least four
/// fifths of the steps of one phase are delayed and hold four fifths of the delayed steps (smallest such period). Else
/// the run of steps in which delays are dense (maximal sum of 2 per delayed and -1 per other step): if it covers the
/// series but for a tenth, at least one step, persistent; so it is where the median of the other steps is at least half
/// of that of the run, since what lasts may be lost among noise now and then; else transient.
PatternVerdict judge_pattern(std::span<const std::int64_t> delay_ns, Nanoseconds noise_ns);

/// True where delays wander: half of all cost and more lies in bins of which one rank has half and more, and no rank
/// has half of that. `cost_ns[r * bins + b]` is what rank r costs in bin b.
bool wanders(std::span<const std::int64_t> cost_ns, std::size_t ranks, std::size_t bins);

}  // namespace nsys_explain::analysis
