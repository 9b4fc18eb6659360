#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clock/clock_map.hpp"
#include "nsys_explain/model/time.hpp"

namespace nsys_explain::collectives {

using clock::may_be_one;
using clock::MemberSequence;

struct AlignmentOptions {
  /// How well the members' clocks agree: exits of a synchronising operation lie within a few of it, and no pair is made
  /// in which one leaves more than four times this before the other enters. no_time: clocks are UTC as recorded, off by
  /// milliseconds or, where a session recorded none, by any amount; they are then estimated along with the alignment.
  Nanoseconds time_scale_ns = no_time;
};

/// Brings unequal sequences together: result[m][i] is the sequence number of member m's i-th operation, strictly
/// ascending in i; numbers count the operations of the group from 0 without holes. Operations that only one member has
/// get a number of their own. Missing operations, ragged ends and absent stretches are allowed (docs/method.md). The
/// result does not depend on the order of the members.
///
/// Members are merged one after another, longest first, into a consensus of all operations seen. Each is put on its
/// clock (see estimate_clock) and then paired by an edit alignment in which only operations are compared that their
/// symbols and overlapping intervals allow to be one. It rather leaves operations alone than brings different ones
/// together: a member of a repeating loop with too few operations to tell where it belongs stays alone until its clock
/// is known from elsewhere. Where a loop is so regular that nothing tells its steps apart, the offset nearest to UTC is
/// taken.
///
/// Near linear in the operations of all members. Throws std::invalid_argument where a member's vectors differ in
/// length.
std::vector<std::vector<std::int64_t>> align_sequences(std::span<const MemberSequence> members,
                                                       const AlignmentOptions& options);

}  // namespace nsys_explain::collectives
