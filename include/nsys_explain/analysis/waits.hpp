#pragma once

#include <cstdint>
#include <functional>

#include "nsys_explain/model/collective.hpp"

namespace nsys_explain::analysis {

/// What the job clock knows about differences between trace ranks.
struct ClockKnowledge {
  /// Times of trace ranks can be compared if this is equal.
  std::function<std::int32_t(std::int32_t trace_rank)> component;
  /// One standard uncertainty of the difference of two times near `at_ns` of comparable trace ranks.
  std::function<Nanoseconds(std::int32_t trace_rank_a, std::int32_t trace_rank_b, Nanoseconds at_ns)> uncertainty;
};

/// An arrival is resolved as the last one beyond this many standard uncertainties.
inline constexpr std::int64_t resolution_factor = 3;

/// Fills the derived fields of every instance and arrival of a block whose times are job time. With A = latest enter:
/// wait = min(A, exit) - enter, transfer = max(0, exit - A), lateness = enter - earliest enter.
/// Own lateness is the work before this enter beyond the median work of the members (algorithms.md 3.1), at most the
/// lateness; the rest was inherited. Of a rank's first arrival the work is not known: then neither is claimed.
/// Caused wait of the last arriver: how much the others' waiting shrinks if it had come without its own lateness (but
/// not before the second-last).
/// Of members without comparable clocks, and of infeasible instances, nothing is claimed: waits stay 0, and none is
/// resolved.
void compute_waits(MatchedBlock& block, const ClockKnowledge& clock);

}  // namespace nsys_explain::analysis
