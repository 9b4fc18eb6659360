#pragma once

#include "clock_map.hpp"

namespace nsys_explain::collectives {

/// Follows the clock of a member from a line that holds for its operations [first, end) to both of its ends, in blocks
/// of operations: clocks wander, and a line fitted in the middle may miss by more than the exits' agreement far from
/// it. Blocks without partners (a stretch that the reference or the member lacks) are passed over.
ClockMap follow_clock(const MemberSequence& member, const MemberSequence& reference, const ClockLine& line,
                      std::size_t first, std::size_t end, Nanoseconds reach_ns);

}  // namespace nsys_explain::collectives
