#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "clock/clock_map.hpp"

namespace nsys_explain::clock {

/// Finds the line anew that holds around an operation of the member, given where it was expected; empty if it cannot be
/// told.
using Relocate = std::function<std::optional<ClockLine>(std::size_t operation, Nanoseconds expected_offset_ns)>;

/// Follows the clock of a member from a line that holds around operation `start` to both of its ends, in blocks of
/// operations: clocks wander, and a line fitted in the middle may miss by more than the exits' agreement far from it.
/// Where a block has no partners although the reference has operations there (after a long pause, say), it is searched
/// anew; where that fails too, the clock counts as unknown. Stretches that the reference lacks are passed over.
ClockMap follow_clock(const MemberSequence& member, const MemberSequence& reference, const ClockLine& line,
                      std::size_t start, Nanoseconds reach_ns, const Relocate& relocate);

}  // namespace nsys_explain::clock
