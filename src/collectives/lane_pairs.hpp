#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lane_relation.hpp"

/// Which lanes of two trace ranks to compare where nothing is known of them.
namespace nsys_explain::collectives {

/// As least_sharp_share where lanes are of different operations that are merely coupled.
inline constexpr double least_coupled_share = 0.7;

using UnnamedLanes = std::map<std::uint64_t, MemberSequence>;

/// What one trace rank did by lane, and on all lanes together, without those that calls name.
UnnamedLanes unnamed_lanes(std::span<const SampledOperation> by_exit);

struct LanePair {
  const MemberSequence* member;
  const MemberSequence* reference;
  double least_share;  ///< of sharp operations, for the relation to be believed
};

/// Lanes of two trace ranks to compare. First those of like length, which are likely of one role, and of a long span,
/// which tell the drift. Lanes of different communicators may be coupled closely enough; last, all lanes together.
std::vector<LanePair> lane_pairs(const UnnamedLanes& members, const UnnamedLanes& references);

}  // namespace nsys_explain::collectives
