#pragma once

#include <optional>

#include "clock/clock_map.hpp"

namespace nsys_explain::clock {

/// How one member's operations lie against the reference's.
struct ClockEstimate {
  ClockMap map;
  /// How far two exits of one operation may lie apart on the mapped clock: small where exits agree sharply, large where
  /// the operations do not synchronise and only their rough times and symbols tell.
  Nanoseconds reach_ns = 0;
};

/// Finds by which offset the operations of `member` are those of `reference` when their clocks are known only roughly
/// (UTC) or not at all, and follows the clock from there over the whole member.
///
/// A training loop repeats its symbols, so symbols alone leave many offsets open. What tells them apart is that no step
/// takes exactly as long as the one before: at the true offset exit differences follow one line to about a microsecond,
/// at an offset by one period they scatter by the jitter of the loop. Candidate offsets come from a vote of exit
/// differences near UTC (and, if that decides nothing, from equal intervals anywhere); they then compete by how sharply
/// a sample of operations agrees, and the sample grows until one is left.
///
/// Where intervals are too regular to tell, the offset nearest to UTC is taken. Empty if the member has too few
/// operations to tell, or if nothing fits. Both sequences: exits ascending.
std::optional<ClockEstimate> estimate_clock(const MemberSequence& member, const MemberSequence& reference);

}  // namespace nsys_explain::clock
