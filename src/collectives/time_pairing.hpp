#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clock/clock_map.hpp"
#include "collectives/alignment.hpp"

namespace nsys_explain::collectives {

using clock::ClockMap;

/// What two operations may differ by in time and still be one.
struct PairingTolerance {
  /// Uncertainty of the mapped clock: nobody leaves an operation earlier than this before another has entered it.
  Nanoseconds clock_ns = 0;
  /// Exits further apart than this are not compared when the typical agreement of a symbol's exits is measured.
  Nanoseconds reach_ns = 0;
};

/// Pairs the operations of a member with those of the reference once its clock is known: the order-preserving set of
/// pairs with the least cost, where leaving an operation alone costs 1 and a pair between 0 and 1 by the distance of
/// its exits. Only operations whose symbols agree and whose intervals [enter, exit] overlap are paired: all members are
/// inside a synchronising operation at once, and out of the one before. Two whose exits lie further apart than is usual
/// for their symbol stay alone where one that is left over was under way beside either, as that may be the counterpart,
/// and where they overlap by clearly less than those of their symbol do at least.
/// result[i] = index in the reference or -1.
/// `earliest_exit_ns`: per operation of the reference, the earliest exit of the members merged so far (its enters are
/// the latest).
std::vector<std::ptrdiff_t> pair_by_time(const MemberSequence& member, const MemberSequence& reference,
                                         std::span<const Nanoseconds> earliest_exit_ns, const ClockMap& map,
                                         const PairingTolerance& tolerance);

}  // namespace nsys_explain::collectives
