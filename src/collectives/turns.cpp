#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include "collectives/exit_clusters.hpp"
#include "collectives/inference.hpp"
#include "collectives/matching.hpp"
#include "collectives/turn_claims.hpp"
#include "collectives/turn_classes.hpp"
#include "collectives/turn_sets.hpp"

namespace nsys_explain::collectives {
namespace {

/// Of operations alike, those whose members' exits agree: nearly all, but for lost records and long tails.
constexpr double least_rate = 0.85;
/// Of exits of members, more than this lie within crowded_part of the tolerance.
constexpr double least_crowded = 0.55;

/// Finds out whom each operation meets, and from that the communicators.
class TurnFinder {
 public:
  explicit TurnFinder(std::vector<TurnLane> lanes) : lanes_(std::move(lanes)), sets_of_lane_(lanes_.size()) {}

  void run() {
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      for (auto& [symbol, operations] : lanes_[l].operations) {
        if (!leaves_at_once(operations.front().operation)) continue;
        find_witnesses(l, symbol, operations);
        std::vector<OperationClass>& classes = classes_[{l, symbol}] = classes_of(operations);
        for (OperationClass& alike : classes) {
          if (!alike.is_of_one_size) continue;
          note_set(l, symbol, operations, alike);
          note_parts(l, symbol, operations, alike);
        }
      }
    }
    accept_sets();
    claim_met(lanes_, classes_, sets_of_lane_, symbols_of_set_);
    review_claims(lanes_, sets_of_lane_, slices_);
    // A copy, since claims point to the sets of lanes.
    sets_and_slices_ = sets_of_lane_;
    for (const LaneSet& set : slices_) {
      for (const std::size_t l : set) {
        if (!contains(sets_of_lane_[l], set)) sets_and_slices_[l].push_back(set);
      }
    }
    claim_gathers(lanes_, sets_and_slices_);
    review_claims(lanes_, sets_and_slices_, slices_);
    place_by_others(lanes_);
    agree_by_place(lanes_);
    withdraw_slow_exchanges(lanes_);
    withdraw_unmet_gathers(lanes_);
    claim_broadcasts(lanes_, sets_and_slices_);
    claim_reductions(lanes_, sets_and_slices_);
  }

  const std::vector<TurnLane>& lanes() const { return lanes_; }

 private:
  void find_witnesses(std::size_t l, std::uint64_t symbol, std::vector<TurnOperation>& operations) {
    const TurnLane& lane = lanes_[l];
    const Nanoseconds tolerance_ns = exit_tolerance(operations.front().operation);
    const auto crowd_ns = static_cast<Nanoseconds>(crowded_part * static_cast<double>(tolerance_ns));
    for (TurnOperation& operation : operations) operation.transfer_ns = operation.exit_ns - operation.enter_ns;
    for (std::size_t n = 0; n < lane.neighbours.size(); ++n) {
      const auto other = lanes_[lane.neighbours[n]].operations.find(symbol);
      if (other == lanes_[lane.neighbours[n]].operations.end()) continue;
      const Nanoseconds habit_ns = usual_habit(operations, other->second);
      for_each_nearest(operations, other->second, habit_ns,
                       [&](std::size_t i, std::size_t j, Nanoseconds difference_ns) {
                         if (std::abs(difference_ns) > tolerance_ns) return;
                         TurnOperation& own = operations[i];
                         const TurnOperation& its = other->second[j];
                         own.witnesses.set(n);
                         if (std::abs(difference_ns) <= crowd_ns) own.close_witnesses.set(n);
                         own.transfer_ns = std::min(own.transfer_ns, its.exit_ns - its.enter_ns);
                       });
    }
  }

  /// The parts of a class that lie at different places of the program and do not meet the same lanes at all of them,
  /// as far as they meet some everywhere.
  void note_parts(std::size_t l, std::uint64_t symbol, const std::vector<TurnOperation>& operations,
                  OperationClass& whole) {
    std::vector<OperationClass> left = parted(lanes_, l, operations, whole);
    while (!left.empty()) {
      OperationClass part = std::move(left.back());
      left.pop_back();
      std::vector<OperationClass> smaller = parted(lanes_, l, operations, part);
      if (!smaller.empty()) {
        std::move(smaller.begin(), smaller.end(), std::back_inserter(left));
        continue;
      }
      note_set(l, symbol, operations, part);
      if (!part.met.empty()) whole.parts.push_back(std::move(part));
    }
  }

  /// Those of some operations that were done while all lanes were captured which do the like and were captured for at
  /// least half of the time that this one was: who meets others then shows whom it would meet alone.
  std::vector<std::size_t> seen_by_all(std::size_t l, std::uint64_t symbol,
                                       const std::vector<TurnOperation>& operations,
                                       const std::vector<std::size_t>& members) const {
    const TurnLane& lane = lanes_[l];
    Nanoseconds first_ns = lane.first_exit_ns, last_ns = lane.last_exit_ns;
    for (const std::size_t other : lane.neighbours) {
      if (!lanes_[other].operations.contains(symbol)) continue;
      const Nanoseconds from_ns = std::max(lane.first_exit_ns, lanes_[other].first_exit_ns);
      const Nanoseconds to_ns = std::min(lane.last_exit_ns, lanes_[other].last_exit_ns);
      if (2 * (to_ns - from_ns) < lane.last_exit_ns - lane.first_exit_ns) continue;
      first_ns = std::max(first_ns, from_ns);
      last_ns = std::min(last_ns, to_ns);
    }
    std::vector<std::size_t> seen;
    std::copy_if(members.begin(), members.end(), std::back_inserter(seen),
                 [&](std::size_t i) { return first_ns <= operations[i].exit_ns && operations[i].exit_ns <= last_ns; });
    return seen;
  }

  /// The lanes that all of these operations meet. Lanes in step meet in exchanges with others, too.
  void note_set(std::size_t l, std::uint64_t symbol, const std::vector<TurnOperation>& operations,
                OperationClass& alike) {
    const bool has_habits = largest_habit(operations.front().operation) > 0;
    const std::vector<std::size_t> asked =
        has_habits ? seen_by_all(l, symbol, operations, alike.members) : alike.members;
    LaneSet set{l};
    for (std::size_t n = 0; n < lanes_[l].neighbours.size(); ++n) {
      double covered = 0, met = 0, crowded = 0;
      for (const std::size_t i : asked) {
        if (!lanes_[lanes_[l].neighbours[n]].covers(operations[i].exit_ns)) continue;
        ++covered;
        met += operations[i].witnesses.test(n) ? 1 : 0;
        crowded += operations[i].close_witnesses.test(n) ? 1 : 0;
      }
      if (covered >= fewest_alike && met >= least_rate * covered && crowded >= least_crowded * covered)
        set.push_back(lanes_[l].neighbours[n]);
    }
    if (set.size() < 2) return;
    std::sort(set.begin(), set.end());
    set = without_companions(l, symbol, operations, asked, set);
    if (set.size() < 2) return;
    alike.met = set;
    noted_[set].insert(l);
    if (largest_habit(operations.front().operation) == 0) noted_without_habits_.insert(set);
    symbols_of_set_[set].insert(symbol);
  }

  /// Without the members of other communicators that are held in step with this one.
  LaneSet without_companions(std::size_t l, std::uint64_t symbol, const std::vector<TurnOperation>& operations,
                             const std::vector<std::size_t>& alike, const LaneSet& set) const {
    constexpr std::size_t enough = 256;
    const std::size_t every = (alike.size() + enough - 1) / enough;
    std::vector<TurnOperation> asked;
    for (std::size_t i = 0; i < alike.size(); i += every) asked.push_back(operations[alike[i]]);
    std::sort(asked.begin(), asked.end(),
              [](const TurnOperation& a, const TurnOperation& b) { return a.exit_ns < b.exit_ns; });
    const Nanoseconds tolerance_ns = exit_tolerance(operations.front().operation);
    const std::vector<double> unknown(asked.size() * set.size(), std::nan(""));
    ExitTable table{set.size(), unknown, unknown};
    const auto note = [&](std::size_t i, std::size_t m, const TurnOperation& its, Nanoseconds difference_ns) {
      table.exits[i * set.size() + m] = static_cast<double>(difference_ns);
      table.enters[i * set.size() + m] = static_cast<double>(its.enter_ns - asked[i].exit_ns);
    };
    for (std::size_t m = 0; m < set.size(); ++m) {
      if (set[m] == l) {
        for (std::size_t i = 0; i < asked.size(); ++i) note(i, m, asked[i], 0);
        continue;
      }
      const std::vector<TurnOperation>& others = lanes_[set[m]].operations.at(symbol);
      const Nanoseconds habit_ns = usual_habit(operations, others);
      for_each_nearest(asked, others, habit_ns, [&](std::size_t i, std::size_t j, Nanoseconds difference_ns) {
        if (std::abs(difference_ns) <= tolerance_ns) note(i, m, others[j], difference_ns);
      });
    }
    const auto own = static_cast<std::size_t>(std::find(set.begin(), set.end(), l) - set.begin());
    LaneSet kept;
    for (const std::size_t m : leave_as_one(table, own)) kept.push_back(set[m]);
    // A mixture is told by whom its members wait for, once it is claimed as a whole.
    return is_evenly_spaced(kept) || !is_evenly_spaced(set) ? kept : set;
  }

  /// The lanes that communicators of each kind hold.
  using HeldLanes = std::map<Kind, std::set<std::size_t>>;

  void accept(const LaneSet& set, HeldLanes& held) {
    for (const std::size_t l : set) sets_of_lane_[l].push_back(set);
    held[kind_of(set)].insert(set.begin(), set.end());
  }

  /// A communicator is what most of its members have noted alike, or one of them, if it is of the kind of others and
  /// its members are in none of those.
  void accept_sets() {
    HeldLanes held;
    std::vector<const LaneSet*> left;
    for (const auto& [set, by] : noted_) {
      if (by.size() >= 2 && is_most(supporters(set), set))
        accept(set, held);
      else
        left.push_back(&set);
    }
    for (const LaneSet* set : left) {
      const auto found = held.find(kind_of(*set));
      if (found == held.end()) continue;
      const bool is_apart =
          std::none_of(set->begin(), set->end(), [&](std::size_t l) { return found->second.contains(l); });
      if (noted_without_habits_.contains(*set) ? is_apart : is_pair_like_others(*set)) accept(*set, held);
    }
    accept_pipelines(held);
    drop_mixtures(held);
  }

  /// Only the first and the last stage of a pipeline exchange with one other stage, and note it. Two such pairs of one
  /// kind, where nothing else exchanges, are of pipelines; what the stages between do not exchange with those, they do
  /// with the next, and so on.
  void accept_pipelines(HeldLanes& held) {
    std::map<Kind, std::vector<const LaneSet*>> pairs;
    for (const auto& [set, by] : noted_) {
      if (set.size() == 2 && !noted_without_habits_.contains(set)) pairs[kind_of(set)].push_back(&set);
    }
    if (pairs.size() != 1 || pairs.begin()->second.size() < 2) return;
    for (const LaneSet* set : pairs.begin()->second) {
      if (!contains(sets_of_lane_[set->front()], *set)) accept(*set, held);
    }
    for (bool has_more = true; has_more;) {
      has_more = false;
      for (auto& [key, classes] : classes_) {
        for (const OperationClass& alike : classes) {
          const std::optional<LaneSet> next = met_by_rest(key.first, key.second, alike);
          if (!next || kind_of(*next) != pairs.begin()->first || contains(sets_of_lane_[key.first], *next)) continue;
          accept(*next, held);
          has_more = true;
        }
      }
    }
  }

  /// What those operations of a class meet that do not meet the communicators known so far.
  std::optional<LaneSet> met_by_rest(std::size_t l, std::uint64_t symbol, const OperationClass& alike) {
    const std::vector<TurnOperation>& operations = lanes_[l].operations.at(symbol);
    if (largest_habit(operations.front().operation) == 0 || !alike.met.empty()) return std::nullopt;
    OperationClass rest{alike.members, alike.is_of_one_size, {}, {}};
    std::erase_if(rest.members, [&](std::size_t i) {
      return std::any_of(sets_of_lane_[l].begin(), sets_of_lane_[l].end(), [&](const LaneSet& set) {
        return symbols_of_set_.at(set).contains(symbol) && meeting(lanes_, l, operations[i], set) == Meeting::yes;
      });
    });
    if (rest.members.size() < fewest_alike || rest.members.size() == alike.members.size()) return std::nullopt;
    note_set(l, symbol, operations, rest);
    return rest.met.empty() ? std::nullopt : std::optional(rest.met);
  }

  static bool is_most(std::size_t part, const LaneSet& whole) { return 5 * part >= 3 * whole.size(); }

  /// How many members have noted a set, or most of it: those who leave late now and then are missed by some.
  std::size_t supporters(const LaneSet& set) const {
    std::set<std::size_t> found;
    for (const auto& [other, by] : noted_) {
      if (is_most(other.size(), set) && is_subset(other, set)) found.insert(by.begin(), by.end());
    }
    return found.size();
  }

  /// Whether lanes that one of them has noted exchange as others of the kind do, of which a stage in the middle of a
  /// pipeline is in two: it notes neither where it meets both at places that look alike.
  bool is_pair_like_others(const LaneSet& set) const {
    const std::set<std::uint64_t>& symbols = symbols_of_set_.at(set);
    return set.size() == 2 && std::any_of(sets_of_lane_.begin(), sets_of_lane_.end(), [&](const auto& sets) {
             return std::any_of(sets.begin(), sets.end(), [&](const LaneSet& other) {
               return kind_of(other) == kind_of(set) && symbols_of_set_.at(other) == symbols;
             });
           });
  }

  /// Programs lay communicators out with equal distances between members, in kinds that hold all lanes. What is not
  /// laid out like that and shares most members with one of those is a part or a mixture of such, which something held
  /// in step; so is what most members of one make up, if its kind does not hold all lanes.
  void drop_mixtures(const HeldLanes& held) {
    const auto is_held_by_all = [&](const LaneSet& set) {
      const auto of_kind = held.find(kind_of(set));
      return of_kind != held.end() && of_kind->second.size() == lanes_.size();
    };
    std::set<LaneSet> sound;
    for (const std::vector<LaneSet>& sets : sets_of_lane_) {
      std::copy_if(sets.begin(), sets.end(), std::inserter(sound, sound.end()),
                   [&](const LaneSet& set) { return is_evenly_spaced(set) && is_held_by_all(set); });
    }
    const auto is_mixture = [&](const LaneSet& set) {
      return std::any_of(sound.begin(), sound.end(), [&](const LaneSet& other) {
        const std::size_t shared = shared_members(set, other);
        const bool is_most_of_it = 2 * shared > other.size() && !is_held_by_all(set);
        return 2 * shared > set.size() && (!is_evenly_spaced(set) || is_most_of_it);
      });
    };
    for (std::vector<LaneSet>& sets : sets_of_lane_) std::erase_if(sets, is_mixture);
    for (auto& [key, classes] : classes_) {
      for (OperationClass& alike : classes) {
        if (!alike.met.empty() && is_mixture(alike.met)) alike.met.clear();
        std::erase_if(alike.parts, [&](const OperationClass& part) { return is_mixture(part.met); });
      }
    }
  }

  std::vector<TurnLane> lanes_;
  ClassesOfLanes classes_;
  std::map<LaneSet, std::set<std::size_t>> noted_;  ///< by lanes
  std::set<LaneSet> noted_without_habits_;
  std::map<LaneSet, std::set<std::uint64_t>> symbols_of_set_;
  std::vector<std::vector<LaneSet>> sets_of_lane_;
  std::vector<std::vector<LaneSet>> sets_and_slices_;
  std::set<LaneSet> slices_;  ///< communicators that look like one
};

}  // namespace

std::vector<OperationKey> share_out_turns(std::span<const SampledOperation> operations, const RoughClocks& clocks,
                                          std::uint64_t first_key) {
  std::vector<TurnLane> lanes = make_turn_lanes(operations, clocks);
  refine_clocks(lanes, clocks.centre_ns());
  TurnFinder finder(std::move(lanes));
  finder.run();
  std::map<LaneSet, std::uint64_t> key_of;
  for (const TurnLane& lane : finder.lanes()) {
    for (const auto& [symbol, of_symbol] : lane.operations) {
      for (const TurnOperation& operation : of_symbol) {
        if (operation.claimed != nullptr) key_of.try_emplace(*operation.claimed, 0);
      }
    }
  }
  for (auto& [set, key] : key_of) key = first_key++;
  std::vector<OperationKey> keys;
  for (const TurnLane& lane : finder.lanes()) {
    for (const auto& [symbol, of_symbol] : lane.operations) {
      for (const TurnOperation& operation : of_symbol) {
        if (operation.claimed != nullptr)
          keys.push_back(
              {lane.trace_rank, operation.index, key_of.at(*operation.claimed), operation.claimed->size() > 2});
      }
    }
  }
  std::sort(keys.begin(), keys.end(), [](const OperationKey& a, const OperationKey& b) {
    return std::tie(a.trace_rank, a.index) < std::tie(b.trace_rank, b.index);
  });
  return keys;
}

void apply_operation_keys(std::span<Arrival> arrivals, std::span<const OperationKey> keys) {
  std::map<std::uint64_t, std::int32_t> next_position;
  for (Arrival& arrival : arrivals) {
    const std::tuple wanted(arrival.trace_rank, arrival.index);
    const auto found = std::lower_bound(keys.begin(), keys.end(), wanted, [](const OperationKey& k, const auto& w) {
      return std::tie(k.trace_rank, k.index) < w;
    });
    if (found != keys.end() && std::tie(found->trace_rank, found->index) == wanted) {
      arrival.communicator = found->key;
      if (names_communicator(found->key)) arrival.evidence = Evidence::order;
      if (found->meets_several && is_pair_exchange(arrival)) arrival.peer_or_root = several_peers;
    }
    arrival.position = next_position[arrival.communicator]++;
  }
}

}  // namespace nsys_explain::collectives
