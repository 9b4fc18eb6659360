#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "collectives/turn_sets.hpp"

/// Whose all-gathers those of a lane are. Members leave when they like, but not before the last one is there, and the
/// first soon after it could: what an all-gather takes from then on is much the same every time in the right
/// communicators, and differs by what others waited for in wrong ones.
namespace nsys_explain::collectives {

/// What lanes of a set did when one of them did an operation.
struct Met {
  Nanoseconds last_enter_ns = std::numeric_limits<Nanoseconds>::min();
  Nanoseconds first_exit_ns = std::numeric_limits<Nanoseconds>::max();
  std::size_t members = 0;
  std::size_t captured = 0;  ///< lanes of the set

  void add(const TurnOperation& operation) {
    last_enter_ns = std::max(last_enter_ns, operation.enter_ns);
    first_exit_ns = std::min(first_exit_ns, operation.exit_ns);
    ++members;
  }
};

/// What operations of a symbol take at least, but for a few, and some less.
Nanoseconds least_transfer(const std::vector<TurnLane>& lanes, std::uint64_t symbol);

/// Whether half of the other members that were captured, or more, did something together with a claimed operation of a
/// lane that they claim for the same, and nothing of that lane that may be it lies far nearer; where only others tell
/// the place of either, before another one could have been done. `together_ns`: what operations take at least.
bool is_met_by_most(const std::vector<TurnLane>& lanes, std::size_t l, std::uint64_t symbol,
                    const TurnOperation& operation, Nanoseconds together_ns);

/// Operations of a symbol, of each lane: positions in its operations, ascending.
using Gathers = std::map<std::size_t, std::vector<std::size_t>>;

/// An assumption about a symbol: that its operations are of these communicators.
struct Assumption {
  const SetOfLane* kind = nullptr;              ///< nullptr: not of communicators that are known
  std::map<std::size_t, LaneSet> sets;          ///< by lane
  std::map<std::size_t, std::vector<Met>> met;  ///< of each lane's operations

  bool is_complete(std::size_t l, std::size_t i) const { return met.at(l)[i].members == sets.at(l).size(); }
  bool is_captured(std::size_t l, std::size_t i) const { return met.at(l)[i].captured == sets.at(l).size(); }

  /// Whether this is the one of the members, all asked about the same, that did most of it: to count each operation
  /// once. The place of a few operations may be mistaken, so that some were asked about those only.
  bool speaks_for_all(std::size_t l, const Gathers& asked) const;
};

/// What communicators of each kind would have done in the operations of a symbol, and, besides, if nobody waited for
/// anybody, or all for all. Points into `families`.
std::vector<Assumption> assumptions_of(const std::vector<TurnLane>& lanes, std::uint64_t symbol,
                                       const Families& families);

struct Range {
  Nanoseconds first_ns = 0, last_ns = 0;
  Nanoseconds width_ns() const { return last_ns - first_ns; }
  Nanoseconds middle_ns() const { return first_ns + width_ns() / 2; }
};

/// What operations take from the entry of the last member to the exit of the first: the middle three in five. Nothing
/// where they are few.
std::optional<Range> transfers(const Gathers& gathers, const Assumption& assumed);

/// An explanation that leaves so many times more unexplained than another is wrong.
inline constexpr double far_worse = 3;

/// The one that explains these better than every other one that is possible by so much evidence (twice the log of the
/// likelihood ratio), if it is of a kind that is known; nullptr: none.
const Assumption* explaining(const Gathers& gathers, const std::vector<Assumption>& all, double least_evidence);

}  // namespace nsys_explain::collectives
