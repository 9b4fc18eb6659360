#pragma once

#include <cstdint>
#include <optional>

#include "collectives/alignment.hpp"
#include "collectives/clock_map.hpp"
#include "collectives/inference.hpp"
#include "collectives/shift_contest.hpp"

namespace nsys_explain::collectives {

/// Exits that agree this well are taken for one operation's: most operations of real hardware do.
inline constexpr Nanoseconds sharp_ns = 5'000;
/// A relation with fewer sharp operations than this rests on a shift that may be wrong.
inline constexpr double least_sharp_share = 0.35;
inline constexpr std::size_t fewest_sharp = 8;

/// How one lane's operations lie against another's.
struct LaneRelation {
  RoughLine line;           ///< from the member's to the reference's time, around centre_ns
  std::size_t covered = 0;  ///< operations of the member that lie within the reference's span
  std::size_t paired = 0;   ///< of these, with a counterpart nearby
  double sharp_share = 0;   ///< of the covered; 0 where fewer than fewest_sharp are sharp
  double beside_share = 0;  ///< of the covered, those that lie up to as far again
  double spread_ns = 0;     ///< four in five of the covered lie this close to the line; infinite where fewer are paired
};

/// How a lane lies against another if its clock is about that of the map: exits ascend in both.
LaneRelation measure_relation(const MemberSequence& member, const MemberSequence& reference, const ClockMap& map,
                              Nanoseconds centre_ns);

/// The same where clocks are not known: nothing if no shift fits.
std::optional<LaneRelation> relate_lanes(const MemberSequence& member, const MemberSequence& reference, Kinship kinship,
                                         Nanoseconds centre_ns);

/// Appends an operation that ends no earlier than the last one; enters ascend, too, as those of operations that
/// overlap count as one.
void append_operation(MemberSequence& sequence, std::uint64_t symbol, Nanoseconds enter_ns, Nanoseconds exit_ns);

}  // namespace nsys_explain::collectives
