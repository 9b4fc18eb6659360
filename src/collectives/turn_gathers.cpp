#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "turn_sets.hpp"

namespace nsys_explain::collectives {
namespace {

/// Members leave an all-gather up to this late, each by a habit of its own.
constexpr Nanoseconds reach_ns = 200'000;

/// What lanes of a set did when one of them did an operation.
struct Met {
  Nanoseconds last_enter_ns = std::numeric_limits<Nanoseconds>::min();
  Nanoseconds first_exit_ns = std::numeric_limits<Nanoseconds>::max();
  std::size_t members = 0;

  void add(const TurnOperation& operation) {
    last_enter_ns = std::max(last_enter_ns, operation.enter_ns);
    first_exit_ns = std::min(first_exit_ns, operation.exit_ns);
    ++members;
  }
};

/// Of each operation of a symbol on a lane: when the lanes of a set entered and left it, if it is theirs.
std::vector<Met> meetings(const std::vector<TurnLane>& lanes, std::size_t l, const LaneSet& set, std::uint64_t symbol) {
  const std::vector<TurnOperation>& own = lanes[l].operations.at(symbol);
  std::vector<Met> met(own.size());
  for (std::size_t i = 0; i < met.size(); ++i) met[i].add(own[i]);
  for (const std::size_t member : set) {
    const auto other = lanes[member].operations.find(symbol);
    if (member == l || other == lanes[member].operations.end()) continue;
    for_each_nearest(own, other->second, 0, [&](std::size_t i, std::size_t j, Nanoseconds difference_ns) {
      if (std::abs(difference_ns) <= reach_ns) met[i].add(other->second[j]);
    });
  }
  return met;
}

/// An assumption about a symbol: that its operations are of these communicators, by lane.
using Assumption = std::map<std::size_t, LaneSet>;

struct Range {
  Nanoseconds first_ns = 0, last_ns = 0;
  Nanoseconds width_ns() const { return last_ns - first_ns; }
};

/// From the entry of the last of the members that one assumption names to the exit of the first of those that another
/// does: the middle three in five. Nothing where they are few.
std::optional<Range> transfers(const std::vector<TurnLane>& lanes, std::uint64_t symbol, const Assumption& exits,
                               const Assumption& enters) {
  constexpr std::size_t fewest = 24;
  std::vector<Nanoseconds> times;
  for (const auto& [l, set] : exits) {
    const auto entering = enters.find(l);
    if (entering == enters.end() || !lanes[l].operations.contains(symbol)) continue;
    const std::vector<Met> left = meetings(lanes, l, set, symbol);
    const std::vector<Met> entered = meetings(lanes, l, entering->second, symbol);
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (left[i].members == set.size()) times.push_back(left[i].first_exit_ns - entered[i].last_enter_ns);
    }
  }
  if (times.size() < fewest) return std::nullopt;
  std::sort(times.begin(), times.end());
  return Range{times[times.size() / 5], times[times.size() * 4 / 5]};
}

Assumption assumption_of(const SetOfLane& family) {
  Assumption result;
  for (const auto& [l, set] : family) result[l] = *set;
  return result;
}

/// What always is to be considered besides the communicators that are known: that nobody waits for anybody, and that
/// all wait for all.
std::vector<Assumption> always_possible(const std::vector<TurnLane>& lanes) {
  std::vector<Assumption> result(2);
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    result[0][l] = {l};
    result[1][l] = lanes[l].neighbours;
    result[1][l].push_back(l);
    std::sort(result[1][l].begin(), result[1][l].end());
  }
  return result;
}

/// True where no other assumption explains nearly as well when members of this one could leave. The exits are the same
/// in all comparisons, and enters of others add to how much times differ, so that little difference tells.
bool explains(const std::vector<TurnLane>& lanes, std::uint64_t symbol, const Assumption& assumed,
              const std::vector<Assumption>& others) {
  constexpr double times = 1.1;
  const std::optional<Range> own = transfers(lanes, symbol, assumed, assumed);
  if (!own) return false;
  return std::all_of(others.begin(), others.end(), [&](const Assumption& other) {
    if (other == assumed) return true;
    const std::optional<Range> its = transfers(lanes, symbol, assumed, other);
    return !its || times * static_cast<double>(own->width_ns()) <= static_cast<double>(its->width_ns());
  });
}

/// Gives operations to the communicators of a kind, but for those that took another time than most, if they are few.
void claim_usual(std::vector<TurnLane>& lanes, std::uint64_t symbol, const SetOfLane& family) {
  constexpr double least_usual = 0.8;
  constexpr Nanoseconds widths = 4;
  const Assumption assumed = assumption_of(family);
  const std::optional<Range> middle = transfers(lanes, symbol, assumed, assumed);
  if (!middle) return;
  const Range usual{middle->first_ns - widths * middle->width_ns(), middle->last_ns + widths * middle->width_ns()};
  std::vector<std::pair<TurnOperation*, const LaneSet*>> claims;
  std::size_t operations = 0;
  for (const auto& [l, set] : family) {
    if (!lanes[l].operations.contains(symbol)) continue;
    const std::vector<Met> met = meetings(lanes, l, *set, symbol);
    operations += met.size();
    for (std::size_t i = 0; i < met.size(); ++i) {
      const Nanoseconds took_ns = met[i].first_exit_ns - met[i].last_enter_ns;
      if (usual.first_ns <= took_ns && took_ns <= usual.last_ns)
        claims.emplace_back(&lanes[l].operations.at(symbol)[i], set);
    }
  }
  if (static_cast<double>(claims.size()) < least_usual * static_cast<double>(operations)) return;
  for (const auto& [operation, set] : claims) operation->claimed = set;
}

}  // namespace

void claim_gathers(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane) {
  const Families families = families_of(sets_of_lane);
  std::vector<const SetOfLane*> kinds;
  std::vector<Assumption> assumptions;
  for (const auto& [kind, family] : families) {
    kinds.push_back(&family);
    assumptions.push_back(assumption_of(family));
  }
  for (Assumption& always : always_possible(lanes)) assumptions.push_back(std::move(always));
  for (const std::uint64_t symbol : symbols_of(lanes, Operation::all_gather)) {
    std::vector<const SetOfLane*> explaining;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      if (explains(lanes, symbol, assumptions[k], assumptions)) explaining.push_back(kinds[k]);
    }
    if (explaining.size() == 1) claim_usual(lanes, symbol, *explaining.front());
  }
}

}  // namespace nsys_explain::collectives
