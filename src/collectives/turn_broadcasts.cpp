#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "collectives/turn_sets.hpp"

namespace nsys_explain::collectives {
namespace {

/// What the broadcasts of a program show of communicators of one kind.
struct Evidence {
  std::size_t fitting = 0;   ///< times that a member was there before the root and left together with it
  std::size_t contrary = 0;  ///< times that it did not, or waited though the root was there
};

/// A broadcast takes this long for those that need not wait: the fastest but for a few, on any lane.
Nanoseconds transfer_time(const std::vector<TurnLane>& lanes, std::uint64_t symbol) {
  std::vector<Nanoseconds> durations;
  for (const TurnLane& lane : lanes) {
    const auto found = lane.operations.find(symbol);
    if (found == lane.operations.end()) continue;
    for (const TurnOperation& operation : found->second) durations.push_back(operation.exit_ns - operation.enter_ns);
  }
  const auto tenth = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 10);
  std::nth_element(durations.begin(), tenth, durations.end());
  return *tenth;
}

/// How often lanes of a set waited for one of them as receivers do for a root: (fitting, contrary).
std::pair<std::size_t, std::size_t> waiting_for(const std::vector<TurnLane>& lanes, const LaneSet& set,
                                                std::size_t root, std::uint64_t symbol, Nanoseconds transfer_ns) {
  // Who did not wait would leave as much earlier as it came.
  constexpr Nanoseconds tolerance_ns = 1'000, least_lead_ns = 2 * tolerance_ns;
  const Nanoseconds longest_ns = transfer_ns + std::max(2 * least_lead_ns, transfer_ns / 4);
  std::pair<std::size_t, std::size_t> result{0, 0};
  const auto of_root = lanes[root].operations.find(symbol);
  if (of_root == lanes[root].operations.end()) return result;
  for (const std::size_t member : set) {
    const auto own = lanes[member].operations.find(symbol);
    if (member == root || own == lanes[member].operations.end()) continue;
    for_each_nearest(own->second, of_root->second, 0, [&](std::size_t i, std::size_t j, Nanoseconds difference_ns) {
      const TurnOperation& mine = own->second[i];
      // Where the root lost its record, its next one is nearer to another.
      if (&nearest_exit(own->second, of_root->second[j].exit_ns) != &mine) return;
      if (mine.exit_ns < lanes[root].first_exit_ns || lanes[root].last_exit_ns < mine.exit_ns) return;
      const Nanoseconds lead_ns = of_root->second[j].enter_ns - mine.enter_ns;
      const bool has_waited = mine.exit_ns - mine.enter_ns > longest_ns;
      if (lead_ns > least_lead_ns)
        ++(std::abs(difference_ns) <= tolerance_ns ? result.first : result.second);
      else if (lead_ns < 0 && has_waited)
        ++result.second;
    });
  }
  return result;
}

/// Adds what the likeliest root of a set shows.
void test(Evidence& evidence, const std::vector<TurnLane>& lanes, const LaneSet& set, std::uint64_t symbol,
          Nanoseconds transfer_ns) {
  std::pair<std::size_t, std::size_t> best{0, std::numeric_limits<std::size_t>::max()};
  for (const std::size_t root : set) {
    const auto found = waiting_for(lanes, set, root, symbol, transfer_ns);
    if (std::pair(found.second, best.first) < std::pair(best.second, found.first)) best = found;
  }
  evidence.fitting += best.first;
  evidence.contrary += best.second;
}

/// The kind whose members waited for one of them. Of communicators that contain each other the smallest: parts of what
/// belongs together are better than what does not. Of two that are at odds none.
const SetOfLane* explaining(const Families& families, const std::vector<TurnLane>& lanes, std::uint64_t symbol) {
  constexpr std::size_t fewest_fitting = 4, times = 5;
  const Nanoseconds transfer_ns = transfer_time(lanes, symbol);
  const SetOfLane* smallest = nullptr;
  for (const auto& [kind, family] : families) {  // by size
    Evidence evidence;
    for (const auto& [l, set] : family) {
      if (set->front() == l) test(evidence, lanes, *set, symbol, transfer_ns);
    }
    if (evidence.fitting < std::max(fewest_fitting, times * evidence.contrary)) continue;
    if (smallest == nullptr) smallest = &family;
    if (!are_parts(*smallest, family)) return nullptr;
  }
  return smallest;
}

}  // namespace

void claim_broadcasts(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane) {
  const Families all = families_of(sets_of_lane);
  for (const std::uint64_t symbol : symbols_of(lanes, Operation::broadcast)) {
    const Families families = held_by_many(all, lanes, symbol);
    const SetOfLane* family = explaining(families, lanes, symbol);
    if (family == nullptr) continue;
    for (const auto& [l, set] : *family) {
      const auto found = lanes[l].operations.find(symbol);
      if (found == lanes[l].operations.end()) continue;
      for (TurnOperation& operation : found->second) operation.claimed = set;
    }
  }
}

}  // namespace nsys_explain::collectives
