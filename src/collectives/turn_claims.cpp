#include "collectives/turn_claims.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "collectives/robust.hpp"

namespace nsys_explain::collectives {
namespace {

/// How often operations left together most closely.
struct Closeness {
  double close = 0, asked = 0;

  void add(bool is_close) {
    close += is_close ? 1 : 0;
    ++asked;
  }
  double share() const { return asked > 0 ? close / asked : 0; }
  /// Exits that spread evenly over the tolerance seldom crowd so much: by one and a half standard deviations.
  bool is_by_chance() const { return close < (crowded_part + 0.05) * asked + 0.75 * std::sqrt(asked); }
};

/// What those of a set did who left together with an operation.
struct TimeTogether {
  Nanoseconds took_ns = 0;  ///< once all of them were there, until the first left: without what others leave late
  bool is_of_all = false;   ///< of the set
};

TimeTogether time_together(const std::vector<TurnLane>& lanes, std::size_t l, std::uint64_t symbol,
                           const TurnOperation& operation, const LaneSet& set) {
  Nanoseconds last_enter_ns = operation.enter_ns, first_exit_ns = operation.exit_ns;
  std::size_t members = 1;
  for (std::size_t n = 0; n < lanes[l].neighbours.size(); ++n) {
    const std::size_t other = lanes[l].neighbours[n];
    if (!operation.witnesses.test(n) || !std::binary_search(set.begin(), set.end(), other)) continue;
    const TurnOperation& its = nearest_exit(lanes[other].operations.at(symbol), operation.exit_ns);
    last_enter_ns = std::max(last_enter_ns, its.enter_ns);
    first_exit_ns = std::min(first_exit_ns, its.exit_ns);
    ++members;
  }
  return {first_exit_ns - last_enter_ns, members == set.size()};
}

/// Whether a time is about what others take, or less.
bool is_as_short(Nanoseconds time_ns, Nanoseconds usual_ns) {
  constexpr double most = 1.2;
  return static_cast<double>(time_ns) <= most * static_cast<double>(usual_ns);
}

void withdraw_slow_exchanges(std::vector<TurnLane>& lanes, std::size_t l) {
  for (auto& [symbol, operations] : lanes[l].operations) {
    const Nanoseconds habit_ns = largest_habit(operations.front().operation);
    if (habit_ns == 0) continue;
    std::map<LaneSet, std::vector<std::pair<Nanoseconds, TurnOperation*>>> claims;
    for (TurnOperation& operation : operations) {
      if (operation.claimed == nullptr || operation.usual_transfer_ns == 0) continue;
      const TimeTogether together = time_together(lanes, l, symbol, operation, *operation.claimed);
      // Whose record is lost may have come a little later than all others.
      const Nanoseconds time_ns = together.took_ns - (together.is_of_all ? 0 : habit_ns);
      claims[*operation.claimed].emplace_back(time_ns, &operation);
    }
    for (auto& [set, of_set] : claims) {
      std::sort(of_set.begin(), of_set.end());
      Nanoseconds longest_ns = of_set[of_set.size() / 2].first;
      for (const auto& [time_ns, operation] : of_set) {
        if (is_as_short(time_ns, operation->usual_transfer_ns))
          longest_ns = std::max(longest_ns, operation->usual_transfer_ns);
      }
      for (const auto& [time_ns, operation] : of_set) {
        if (!is_as_short(time_ns, longest_ns)) operation->claimed = nullptr;
      }
    }
  }
}

/// Claims what lanes meet.
class Claimer {
 public:
  Claimer(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane,
          const std::map<LaneSet, std::set<std::uint64_t>>& symbols_of_set)
      : lanes_(lanes), sets_of_lane_(sets_of_lane), symbols_of_set_(symbols_of_set) {}

  /// What meets lanes that all of its class meet is claimed with the class; what the program does in several
  /// communicators, or where the class as a whole meets none, by the place in the program.
  void claim_class(std::size_t l, std::uint64_t symbol, const OperationClass& alike) {
    std::vector<TurnOperation>& operations = lanes_[l].operations.at(symbol);
    const bool is_of_several = has_crossing_parts(l, alike);
    if (!is_of_several) claim(l, symbol, operations, alike);
    if (!is_of_several && !alike.met.empty()) return;
    std::set<Kind> kinds;
    for (const OperationClass& part : alike.parts) {
      if (!contains(sets_of_lane_[l], part.met)) continue;
      claim(l, symbol, operations, part);
      kinds.insert(kind_of(part.met));
    }
    OperationClass rest = alike;
    std::erase_if(rest.members, [&](std::size_t i) { return operations[i].claimed != nullptr; });
    // Both neighbours in a pipeline are met at places that look alike.
    if (kinds.size() == 1 && !rest.members.empty()) claim(l, symbol, operations, rest, *kinds.begin());
    if (kinds.size() < 2) return;
    const bool has_habits = largest_habit(operations.front().operation) > 0;
    if (!has_habits && is_hardly_parted(alike))
      claim(l, symbol, operations, rest);
    else
      claim_one_by_one(l, operations, rest, alike.parts);
  }

  /// Gives exchanges that may be with several others to the pair whose other member claims what it left together with
  /// them, if it is one.
  void share_claims() {
    std::map<TurnOperation*, std::set<const LaneSet*>> shared;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      for (auto& [symbol, operations] : lanes_[l].operations) {
        if (largest_habit(operations.front().operation) == 0) continue;
        for (const std::size_t other : lanes_[l].neighbours) note_shared_claims(l, other, symbol, shared);
      }
    }
    for (const auto& [operation, sets] : shared) {
      if (sets.size() == 1) operation->claimed = *sets.begin();
    }
  }

  /// Takes claims back that most of the other members who left at the time do not share; of exchanges, which lanes in
  /// step leave alike, most of all that were captured.
  void confirm(std::size_t l) {
    for (auto& entry : lanes_[l].operations) {
      std::vector<TurnOperation>& operations = entry.second;
      const bool has_habits = largest_habit(operations.front().operation) > 0;
      std::vector<std::pair<int, int>> votes(operations.size(), {0, 0});  // for, against
      for (const std::size_t other : lanes_[l].neighbours) {
        const auto found = lanes_[other].operations.find(entry.first);
        if (found == lanes_[other].operations.end()) continue;
        const Nanoseconds tolerance_ns = exit_tolerance(operations.front().operation);
        const Nanoseconds habit_ns = usual_habit(operations, found->second);
        for_each_nearest(operations, found->second, habit_ns,
                         [&](std::size_t i, std::size_t j, Nanoseconds difference_ns) {
                           const LaneSet* claimed = operations[i].claimed;
                           if (claimed == nullptr || !std::binary_search(claimed->begin(), claimed->end(), other))
                             return;
                           const LaneSet* its = found->second[j].claimed;
                           const bool leaves_with_it = std::abs(difference_ns) <= tolerance_ns;
                           const bool should_be_there = has_habits && lanes_[other].covers(operations[i].exit_ns);
                           if (!leaves_with_it && !should_be_there) return;
                           const bool agrees = leaves_with_it && its != nullptr && *its == *claimed;
                           (agrees ? votes[i].first : votes[i].second) += 1;
                         });
      }
      for (std::size_t i = 0; i < operations.size(); ++i) {
        if (votes[i].second > votes[i].first) operations[i].claimed = nullptr;
      }
    }
  }

 private:
  /// What a lane claims for the pair of it and another one, and that one left together with it and does not claim.
  void note_shared_claims(std::size_t l, std::size_t other, std::uint64_t symbol,
                          std::map<TurnOperation*, std::set<const LaneSet*>>& shared) {
    const auto found = lanes_[other].operations.find(symbol);
    const auto pair = std::find(sets_of_lane_[other].begin(), sets_of_lane_[other].end(),
                                LaneSet{std::min(l, other), std::max(l, other)});
    if (found == lanes_[other].operations.end() || pair == sets_of_lane_[other].end()) return;
    const std::vector<TurnOperation>& operations = lanes_[l].operations.at(symbol);
    const Nanoseconds tolerance_ns = exit_tolerance(operations.front().operation);
    for_each_nearest(found->second, operations, usual_habit(found->second, operations),
                     [&](std::size_t i, std::size_t j, Nanoseconds difference_ns) {
                       const LaneSet* claimed = operations[j].claimed;
                       if (found->second[i].claimed == nullptr && claimed != nullptr && *claimed == *pair &&
                           std::abs(difference_ns) <= tolerance_ns)
                         shared[&found->second[i]].insert(&*pair);
                     });
  }

  /// Whether the program does operations of a class in several communicators, none of which is part of another.
  bool has_crossing_parts(std::size_t l, const OperationClass& whole) const {
    const auto cross = [&](const OperationClass& a, const OperationClass& b) {
      return contains(sets_of_lane_[l], a.met) && contains(sets_of_lane_[l], b.met) && !is_subset(a.met, b.met) &&
             !is_subset(b.met, a.met);
    };
    return std::any_of(whole.parts.begin(), whole.parts.end(), [&](const OperationClass& a) {
      return std::any_of(whole.parts.begin(), whole.parts.end(), [&](const OperationClass& b) { return cross(a, b); });
    });
  }

  /// Whether only a few of a class, whatever they meet, lie where the program does others than most.
  static bool is_hardly_parted(const OperationClass& whole) {
    constexpr std::size_t one_in = 50;
    if (whole.met.empty()) return false;
    std::size_t elsewhere = 0;
    for (const OperationClass& part : whole.parts) elsewhere += part.met == whole.met ? 0 : part.members.size();
    return one_in * elsewhere < whole.members.size();
  }

  /// Gives operations of which it is not known where they lie in the program the communicator whose members they leave
  /// closely together with, of those that the program does elsewhere, where they meet no other one.
  void claim_one_by_one(std::size_t l, std::vector<TurnOperation>& operations, const OperationClass& rest,
                        std::span<const OperationClass> parts) {
    std::set<LaneSet> sets;
    for (const OperationClass& part : parts) {
      if (contains(sets_of_lane_[l], part.met)) sets.insert(part.met);
    }
    for (const std::size_t i : rest.members) {
      if (operations[i].place != 0) continue;
      const LaneSet* only = nullptr;
      std::size_t possible = 0;
      for (const LaneSet& set : sets_of_lane_[l]) {
        if (!sets.contains(set)) continue;
        const Meeting met = meeting(lanes_, l, operations[i], set);
        possible += met == Meeting::no ? 0 : 1;
        if (met == Meeting::yes &&
            meeting(lanes_, l, operations[i], set, &TurnOperation::close_witnesses) == Meeting::yes)
          only = &set;
      }
      if (possible == 1 && only != nullptr) operations[i].claimed = only;
    }
  }

  /// Gives operations of a class the communicator they meet. One counts where enough of the class meet it alone, or it
  /// and parts of it; parts that leave together by chance look like the whole, so one that has a part which counts does
  /// not. Nor does one of other lanes than nearly all of the class meet: lanes that are held in step meet some of its
  /// operations, too. Where hardly any operation may be unexplained, none is claimed otherwise: what they meet is not
  /// known.
  /// `kind`: if only communicators of it are possible.
  void claim(std::size_t l, std::uint64_t symbol, std::vector<TurnOperation>& operations, const OperationClass& alike,
             std::optional<Kind> kind = std::nullopt) {
    constexpr double least_alone = 0.02, least_explained = 0.8;
    std::vector<const LaneSet*> sets;
    for (const LaneSet& set : sets_of_lane_[l]) {
      const bool is_possible = symbols_of_set_.at(set).contains(symbol) && is_subset(alike.met, set);
      if (is_possible && (!kind || *kind == kind_of(set))) sets.push_back(&set);
    }
    std::vector<std::vector<Meeting>> meetings;
    std::vector<std::size_t> alone(sets.size(), 0);
    std::size_t tested = 0;
    for (const std::size_t i : alike.members) {
      std::vector<Meeting>& of_one = meetings.emplace_back();
      for (const LaneSet* set : sets) of_one.push_back(meeting(lanes_, l, operations[i], *set));
      if (std::count(of_one.begin(), of_one.end(), Meeting::unknown) > 0) continue;
      ++tested;
      for (std::size_t s = 0; s < sets.size(); ++s) {
        if (of_one[s] == Meeting::yes && is_alone(s, sets, of_one)) ++alone[s];
      }
    }
    const double fewest = std::max(2.0, least_alone * static_cast<double>(tested));
    std::vector<std::size_t> counting;
    for (std::size_t s = 0; s < sets.size(); ++s) {
      bool counts = static_cast<double>(alone[s]) >= fewest;
      for (std::size_t part = 0; part < sets.size() && counts; ++part) {
        if (part != s && is_subset(*sets[part], *sets[s]))
          counts = alike.is_of_one_size && static_cast<double>(alone[part]) < fewest;
      }
      if (counts && leaves_as_members(l, operations, alike, meetings, s, *sets[s])) counting.push_back(s);
    }
    const auto is_explained = [&](const std::vector<Meeting>& of_one) {
      return std::any_of(counting.begin(), counting.end(), [&](std::size_t s) { return of_one[s] != Meeting::no; });
    };
    const auto explained = static_cast<double>(std::count_if(meetings.begin(), meetings.end(), is_explained));
    if (explained < least_explained * static_cast<double>(meetings.size())) return;
    const bool has_habits = largest_habit(operations.front().operation) > 0;
    for (std::size_t k = 0; k < meetings.size(); ++k) {
      std::vector<std::size_t> possible;
      for (const std::size_t s : counting) {
        if (meetings[k][s] != Meeting::no) possible.push_back(s);
      }
      TurnOperation& operation = operations[alike.members[k]];
      if (has_habits && possible.size() > 1)
        std::erase_if(possible, [&](std::size_t s) { return !takes_as_long(lanes_, l, symbol, operation, *sets[s]); });
      if (possible.size() == 1 && meetings[k][possible.front()] == Meeting::yes &&
          (has_habits || takes_as_long(lanes_, l, symbol, operation, *sets[possible.front()])))
        operation.claimed = sets[possible.front()];
    }
  }

  /// Whether the operations of a class that meet a set leave as closely with its members as those of one communicator
  /// do, and with no other lane more closely: lanes that are held in step leave at the same time by chance.
  bool leaves_as_members(std::size_t l, const std::vector<TurnOperation>& operations, const OperationClass& alike,
                         const std::vector<std::vector<Meeting>>& meetings, std::size_t s, const LaneSet& set) const {
    constexpr double better = 0.1;
    Closeness members;
    double closest_other = 0;
    for (std::size_t n = 0; n < lanes_[l].neighbours.size(); ++n) {
      const std::size_t other = lanes_[l].neighbours[n];
      Closeness closeness;
      for (std::size_t k = 0; k < meetings.size(); ++k) {
        const TurnOperation& operation = operations[alike.members[k]];
        if (meetings[k][s] == Meeting::yes && lanes_[other].covers(operation.exit_ns))
          closeness.add(operation.close_witnesses.test(n));
      }
      if (std::binary_search(set.begin(), set.end(), other)) {
        members.close += closeness.close;
        members.asked += closeness.asked;
      } else if (closeness.asked >= fewest_alike) {
        closest_other = std::max(closest_other, closeness.share());
      }
    }
    return !members.is_by_chance() && closest_other <= members.share() + better;
  }

  /// True where all that an operation meets besides this set are parts of it.
  static bool is_alone(std::size_t s, std::span<const LaneSet* const> sets, std::span<const Meeting> meetings) {
    for (std::size_t other = 0; other < sets.size(); ++other) {
      if (meetings[other] == Meeting::yes && !is_subset(*sets[other], *sets[s])) return false;
    }
    return true;
  }

  std::vector<TurnLane>& lanes_;
  const std::vector<std::vector<LaneSet>>& sets_of_lane_;
  const std::map<LaneSet, std::set<std::uint64_t>>& symbols_of_set_;
};

}  // namespace

Nanoseconds usual_habit(const std::vector<TurnOperation>& own, const std::vector<TurnOperation>& others) {
  const Operation operation = own.front().operation;
  const Nanoseconds largest_ns = largest_habit(operation);
  std::vector<Nanoseconds> differences;
  for_each_nearest(own, others, 0, [&](std::size_t, std::size_t, Nanoseconds difference_ns) {
    if (std::abs(difference_ns) <= largest_ns) differences.push_back(difference_ns);
  });
  return densest(std::move(differences), exit_tolerance(operation));
}

Meeting meeting(const std::vector<TurnLane>& lanes, std::size_t l, const TurnOperation& operation, const LaneSet& set,
                Witnesses TurnOperation::*witnesses) {
  // Of exchanges with others that lanes in step leave alike, most seem to be of one communicator as well.
  const double least_share = largest_habit(operation.operation) > 0 ? 0.8 : 0.6;
  double covered = 0, met = 0;
  for (std::size_t n = 0; n < lanes[l].neighbours.size(); ++n) {
    const std::size_t other = lanes[l].neighbours[n];
    if (!std::binary_search(set.begin(), set.end(), other) || !lanes[other].covers(operation.exit_ns)) continue;
    ++covered;
    met += (operation.*witnesses).test(n) ? 1 : 0;
  }
  if (covered == 0) return Meeting::unknown;
  return met > 0 && met >= least_share * covered ? Meeting::yes : Meeting::no;
}

bool takes_as_long(const std::vector<TurnLane>& lanes, std::size_t l, std::uint64_t symbol,
                   const TurnOperation& operation, const LaneSet& set) {
  if (operation.usual_transfer_ns == 0) return true;
  return is_as_short(time_together(lanes, l, symbol, operation, set).took_ns,
                     std::max(operation.usual_transfer_ns, operation.transfer_ns));
}

void claim_met(std::vector<TurnLane>& lanes, const ClassesOfLanes& classes,
               const std::vector<std::vector<LaneSet>>& sets_of_lane,
               const std::map<LaneSet, std::set<std::uint64_t>>& symbols_of_set) {
  Claimer claimer(lanes, sets_of_lane, symbols_of_set);
  for (const auto& [key, of_key] : classes) {
    for (const OperationClass& alike : of_key) claimer.claim_class(key.first, key.second, alike);
  }
  claimer.share_claims();
  for (std::size_t l = 0; l < lanes.size(); ++l) claimer.confirm(l);
}

void withdraw_slow_exchanges(std::vector<TurnLane>& lanes) {
  for (std::size_t l = 0; l < lanes.size(); ++l) withdraw_slow_exchanges(lanes, l);
}

}  // namespace nsys_explain::collectives
