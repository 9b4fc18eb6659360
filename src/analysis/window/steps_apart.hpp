#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "analysis/window/steps.hpp"

/// Steps of a trace rank that hold more than a step: an evaluation, a checkpoint of all ranks.
///
///     | step | step | step, evaluation ......... | step |      the mean step is that of the others
namespace nsys_explain::analysis {

/// Length of each step without exposed communication: who waits for another rank is not slow itself. `steps`: of these
/// events, in the same clock.
std::vector<Nanoseconds> own_lengths(const RankEvents& events, const Steps& steps);

/// The median of the last two thirds, at least 1: the first steps may compile.
Nanoseconds usual_length(std::span<const Nanoseconds> own_ns);

/// A step with an own length of more than twice the usual is worth less than none (slow_first_steps).
inline bool is_long(Nanoseconds own_ns, Nanoseconds usual_ns) {
  return own_ns > 2 * usual_ns;
}

/// By index, ascending: the long steps that hold more GPU activities than each step that is not long. A long step
/// without them is one that something delayed.
std::vector<std::int32_t> steps_with_more(const RankEvents& events, const Steps& steps);

}  // namespace nsys_explain::analysis
