#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain::collectives {

/// One member's operations on one communicator, in order.
struct MemberSequence {
  std::vector<std::uint64_t> symbols;   ///< equal symbols may be one operation, different ones never are
  std::vector<Nanoseconds> enter_ns;    ///< same length, ascending
  std::vector<Nanoseconds> exit_ns;
};

struct AlignmentOptions {
  /// How far apart two exits of one operation may lie on the given clock, for the time term; no_time: the times are not comparable yet.
  Nanoseconds time_scale_ns = no_time;
};

/// Brings unequal sequences together: result[m][i] is the sequence number of member m's i-th operation, strictly
/// ascending in i; numbers count the operations of the group from 0 without holes. Operations that only one member has get
/// a number of their own. Missing operations, ragged ends and absent stretches are allowed (algorithms.md 2.4).
std::vector<std::vector<std::int64_t>> align_sequences(std::span<const MemberSequence> members,
                                                       const AlignmentOptions& options);

}  // namespace nsys_explain::collectives
