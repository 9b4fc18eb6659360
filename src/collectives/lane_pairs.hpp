#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "collectives/lane_relation.hpp"

/// Which lanes of two trace ranks to compare where nothing is known of them.
namespace nsys_explain::collectives {

/// As least_sharp_share where lanes are of different operations that are merely coupled.
inline constexpr double least_coupled_share = 0.7;

/// What was done of one symbol on a lane, or all of it; or at one place of the program, or at those that are alike on
/// one side; or on all lanes together.
struct LanePart {
  enum class Kind : std::uint8_t { lane, place, symbol, all_lanes, side };
  Kind kind = Kind::lane;
  std::uint64_t lane = 0;
  std::uint64_t symbol = 0;  ///< or the place or side

  friend bool operator<(const LanePart& a, const LanePart& b) {
    return std::tie(a.kind, a.lane, a.symbol) < std::tie(b.kind, b.lane, b.symbol);
  }
};

using UnnamedLanes = std::map<LanePart, MemberSequence>;

/// What one trace rank did by lane, by symbol on lanes of several, by place and side, and on all lanes together,
/// without those that calls name. `places` and `sides`: of each operation, see program_places; 0: not known.
UnnamedLanes unnamed_lanes(std::span<const SampledOperation> by_exit,
                           std::span<const std::array<std::uint64_t, 2>> places,
                           std::span<const std::array<std::uint64_t, 2>> sides);

struct LanePair {
  LanePart::Kind kind;
  const MemberSequence* member;
  const MemberSequence* reference;
  double least_share;  ///< of sharp operations, for the relation to be believed
};

/// Lanes of two trace ranks to compare. First those of like length, which are likely of one role, and of a long span,
/// which tell the drift. Lanes of different communicators may be coupled closely enough. Then by symbol, because of
/// what a lane carries in turns trace ranks of two hosts may share the exchanges only; then all lanes together. Last by
/// side.
std::vector<LanePair> lane_pairs(const UnnamedLanes& members, const UnnamedLanes& references);

}  // namespace nsys_explain::collectives
