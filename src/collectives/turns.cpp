#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include "exit_clusters.hpp"
#include "nsys_explain/collectives/inference.hpp"
#include "nsys_explain/collectives/matching.hpp"
#include "turn_classes.hpp"
#include "turn_sets.hpp"

namespace nsys_explain::collectives {
namespace {

/// Of operations alike, those whose members' exits agree: nearly all, but for lost records and long tails.
constexpr double least_rate = 0.85;
/// Exits that agree by chance spread evenly; those of members crowd within this part of the tolerance.
constexpr double crowded_part = 0.4, least_crowded = 0.55;

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
    for (const auto& [key, classes] : classes_) {
      for (const OperationClass& alike : classes) claim_class(key.first, key.second, alike);
    }
    for (std::size_t l = 0; l < lanes_.size(); ++l) confirm(l);
    review_claims(lanes_, sets_of_lane_, slices_);
    sets_and_slices_ = sets_of_lane_;
    for (const LaneSet& set : slices_) {
      for (const std::size_t l : set) {
        if (!is_accepted(l, set)) sets_and_slices_[l].push_back(set);
      }
    }
    claim_gathers(lanes_, sets_and_slices_);
    review_claims(lanes_, sets_and_slices_, slices_);
    agree_by_place(lanes_);
    for (std::size_t l = 0; l < lanes_.size(); ++l) withdraw_slow_exchanges(l);
    claim_broadcasts(lanes_, sets_and_slices_);
    claim_reductions(lanes_, sets_and_slices_);
  }

  const std::vector<TurnLane>& lanes() const { return lanes_; }

 private:
  /// How much later exits of this symbol come on the other lane: where most differences crowd.
  Nanoseconds habit(const std::vector<TurnOperation>& own, const std::vector<TurnOperation>& others) const {
    const Operation operation = own.front().operation;
    const Nanoseconds largest_ns = largest_habit(operation);
    std::vector<Nanoseconds> differences;
    for_each_nearest(own, others, 0, [&](std::size_t, std::size_t, Nanoseconds difference_ns) {
      if (std::abs(difference_ns) <= largest_ns) differences.push_back(difference_ns);
    });
    std::sort(differences.begin(), differences.end());
    const Nanoseconds width_ns = exit_tolerance(operation);
    std::size_t most = 0;
    Nanoseconds centre_ns = 0;
    for (std::size_t first = 0, end = 0; first < differences.size(); ++first) {
      while (end < differences.size() && differences[end] - differences[first] <= width_ns) ++end;
      if (end - first <= most) continue;
      most = end - first;
      centre_ns = differences[(first + end - 1) / 2];
    }
    return centre_ns;
  }

  void find_witnesses(std::size_t l, std::uint64_t symbol, std::vector<TurnOperation>& operations) {
    const TurnLane& lane = lanes_[l];
    const Nanoseconds tolerance_ns = exit_tolerance(operations.front().operation);
    const auto crowd_ns = static_cast<Nanoseconds>(crowded_part * static_cast<double>(tolerance_ns));
    for (TurnOperation& operation : operations) operation.transfer_ns = operation.exit_ns - operation.enter_ns;
    for (std::size_t n = 0; n < lane.neighbours.size(); ++n) {
      const auto other = lanes_[lane.neighbours[n]].operations.find(symbol);
      if (other == lanes_[lane.neighbours[n]].operations.end()) continue;
      const Nanoseconds habit_ns = habit(operations, other->second);
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

  /// The lanes that all of these operations meet.
  void note_set(std::size_t l, std::uint64_t symbol, const std::vector<TurnOperation>& operations,
                OperationClass& alike) {
    LaneSet set{l};
    for (std::size_t n = 0; n < lanes_[l].neighbours.size(); ++n) {
      double covered = 0, met = 0, crowded = 0;
      for (const std::size_t i : alike.members) {
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
    set = without_companions(l, symbol, operations, alike.members, set);
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
    ExitTable table{set.size(), std::vector<double>(asked.size() * set.size(), std::nan(""))};
    for (std::size_t m = 0; m < set.size(); ++m) {
      if (set[m] == l) {
        for (std::size_t i = 0; i < asked.size(); ++i) table.exits[i * set.size() + m] = 0;
        continue;
      }
      const std::vector<TurnOperation>& others = lanes_[set[m]].operations.at(symbol);
      const Nanoseconds habit_ns = habit(operations, others);
      for_each_nearest(asked, others, habit_ns, [&](std::size_t i, std::size_t, Nanoseconds difference_ns) {
        if (std::abs(difference_ns) <= tolerance_ns)
          table.exits[i * set.size() + m] = static_cast<double>(difference_ns);
      });
    }
    const auto own = static_cast<std::size_t>(std::find(set.begin(), set.end(), l) - set.begin());
    LaneSet kept;
    for (const std::size_t m : leave_as_one(table, own)) kept.push_back(set[m]);
    // A mixture is told by whom its members wait for, once it is claimed as a whole.
    return is_evenly_spaced(kept) || !is_evenly_spaced(set) ? kept : set;
  }

  /// A communicator is what most of its members have noted alike, or one of them, if it is of the kind of others and
  /// its members are in none of those.
  void accept_sets() {
    std::map<Kind, std::set<std::size_t>> held;
    const auto accept = [&](const LaneSet& set) {
      for (const std::size_t l : set) sets_of_lane_[l].push_back(set);
      held[kind_of(set)].insert(set.begin(), set.end());
    };
    std::vector<const LaneSet*> left;
    for (const auto& [set, by] : noted_) {
      if (by.size() >= 2 && is_most(supporters(set), set))
        accept(set);
      else
        left.push_back(&set);
    }
    for (const LaneSet* set : left) {
      const auto found = held.find(kind_of(*set));
      if (found == held.end()) continue;
      const bool is_apart =
          std::none_of(set->begin(), set->end(), [&](std::size_t l) { return found->second.contains(l); });
      if (noted_without_habits_.contains(*set) ? is_apart : is_pair_like_others(*set)) accept(*set);
    }
    accept_pipelines(held);
    drop_mixtures(held);
  }

  /// Only the first and the last stage of a pipeline exchange with one other stage, and note it. Two such pairs of one
  /// kind, where nothing else exchanges, are of pipelines; what the stages between do not exchange with those, they do
  /// with the next, and so on.
  void accept_pipelines(std::map<Kind, std::set<std::size_t>>& held) {
    const auto accept = [&](const LaneSet& set) {
      for (const std::size_t l : set) sets_of_lane_[l].push_back(set);
      held[kind_of(set)].insert(set.begin(), set.end());
    };
    std::map<Kind, std::vector<const LaneSet*>> pairs;
    for (const auto& [set, by] : noted_) {
      if (set.size() != 2 || noted_without_habits_.contains(set)) continue;
      if (is_accepted(set.front(), set)) return;
      pairs[kind_of(set)].push_back(&set);
    }
    if (pairs.size() != 1 || pairs.begin()->second.size() < 2) return;
    for (const LaneSet* set : pairs.begin()->second) accept(*set);
    for (bool has_more = true; has_more;) {
      has_more = false;
      for (auto& [key, classes] : classes_) {
        for (const OperationClass& alike : classes) {
          const std::optional<LaneSet> next = met_by_rest(key.first, key.second, alike);
          if (!next || kind_of(*next) != pairs.begin()->first || is_accepted(key.first, *next)) continue;
          accept(*next);
          has_more = true;
        }
      }
    }
  }

  /// What those operations of a class meet that do not meet the communicators known so far.
  std::optional<LaneSet> met_by_rest(std::size_t l, std::uint64_t symbol, const OperationClass& alike) {
    const std::vector<TurnOperation>& operations = lanes_[l].operations.at(symbol);
    if (largest_habit(operations.front().operation) == 0 || !alike.met.empty()) return std::nullopt;
    OperationClass rest = alike;
    rest.parts.clear();
    std::erase_if(rest.members, [&](std::size_t i) {
      return std::any_of(sets_of_lane_[l].begin(), sets_of_lane_[l].end(), [&](const LaneSet& set) {
        return symbols_of_set_.at(set).contains(symbol) && meeting(l, operations[i], set) == Meeting::yes;
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
  /// in step; so is what most members of one make up, if its kind does not hold all lanes. `held`: the lanes of each
  /// kind.
  void drop_mixtures(const std::map<Kind, std::set<std::size_t>>& held) {
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

  bool is_accepted(std::size_t l, const LaneSet& set) const {
    return std::find(sets_of_lane_[l].begin(), sets_of_lane_[l].end(), set) != sets_of_lane_[l].end();
  }

  /// Whether the program does operations of a class in several communicators, none of which is part of another.
  bool has_crossing_parts(std::size_t l, const OperationClass& whole) const {
    const auto cross = [&](const OperationClass& a, const OperationClass& b) {
      return is_accepted(l, a.met) && is_accepted(l, b.met) && !is_subset(a.met, b.met) && !is_subset(b.met, a.met);
    };
    return std::any_of(whole.parts.begin(), whole.parts.end(), [&](const OperationClass& a) {
      return std::any_of(whole.parts.begin(), whole.parts.end(), [&](const OperationClass& b) { return cross(a, b); });
    });
  }

  /// What meets lanes that all of its class meet is claimed with the class; what the program does in several
  /// communicators, or where the class as a whole meets none, by the place in the program.
  void claim_class(std::size_t l, std::uint64_t symbol, const OperationClass& alike) {
    std::vector<TurnOperation>& operations = lanes_[l].operations.at(symbol);
    const bool is_of_several = has_crossing_parts(l, alike);
    if (!is_of_several) claim(l, symbol, operations, alike);
    if (!is_of_several && !alike.met.empty()) return;
    std::set<Kind> kinds;
    for (const OperationClass& part : alike.parts) {
      if (!is_accepted(l, part.met)) continue;
      claim(l, symbol, operations, part);
      kinds.insert(kind_of(part.met));
    }
    OperationClass rest = alike;
    std::erase_if(rest.members, [&](std::size_t i) { return operations[i].claimed != nullptr; });
    // Both neighbours in a pipeline are met at places that look alike.
    if (kinds.size() == 1 && !rest.members.empty()) claim(l, symbol, operations, rest, *kinds.begin());
    if (kinds.size() < 2) return;
    if (is_hardly_parted(alike))
      claim(l, symbol, operations, rest);
    else
      claim_one_by_one(l, operations, rest, alike.parts);
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
      if (is_accepted(l, part.met)) sets.insert(part.met);
    }
    for (const std::size_t i : rest.members) {
      if (operations[i].place != 0) continue;
      const LaneSet* only = nullptr;
      std::size_t possible = 0;
      for (const LaneSet& set : sets_of_lane_[l]) {
        if (!sets.contains(set)) continue;
        const Meeting met = meeting(l, operations[i], set);
        possible += met == Meeting::no ? 0 : 1;
        if (met == Meeting::yes && meeting(l, operations[i], set, &TurnOperation::close_witnesses) == Meeting::yes)
          only = &set;
      }
      if (possible == 1 && only != nullptr) operations[i].claimed = only;
    }
  }

  enum class Meeting : std::uint8_t { no, yes, unknown };

  /// Whether most members leave together with this operation; unknown where none was captured at the time.
  Meeting meeting(std::size_t l, const TurnOperation& operation, const LaneSet& set,
                  Witnesses TurnOperation::*witnesses = &TurnOperation::witnesses) const {
    // Of exchanges with others that lanes in step leave alike, most seem to be of one communicator as well.
    const double least_share = largest_habit(operation.operation) > 0 ? 0.8 : 0.6;
    double covered = 0, met = 0;
    for (std::size_t n = 0; n < lanes_[l].neighbours.size(); ++n) {
      const std::size_t other = lanes_[l].neighbours[n];
      if (!std::binary_search(set.begin(), set.end(), other) || !lanes_[other].covers(operation.exit_ns)) continue;
      ++covered;
      met += (operation.*witnesses).test(n) ? 1 : 0;
    }
    if (covered == 0) return Meeting::unknown;
    return met > 0 && met >= least_share * covered ? Meeting::yes : Meeting::no;
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
      for (const LaneSet* set : sets) of_one.push_back(meeting(l, operations[i], *set));
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
      if (possible.size() == 1 && meetings[k][possible.front()] == Meeting::yes &&
          (has_habits || takes_as_long(l, symbol, operation, *sets[possible.front()])))
        operation.claimed = sets[possible.front()];
    }
  }

  /// How long an operation took once all of a set that left with it were there.
  Nanoseconds time_together(std::size_t l, std::uint64_t symbol, const TurnOperation& operation,
                            const LaneSet& set) const {
    Nanoseconds last_enter_ns = operation.enter_ns;
    for (std::size_t n = 0; n < lanes_[l].neighbours.size(); ++n) {
      const std::size_t other = lanes_[l].neighbours[n];
      if (!operation.witnesses.test(n) || !std::binary_search(set.begin(), set.end(), other)) continue;
      last_enter_ns =
          std::max(last_enter_ns, nearest_exit(lanes_[other].operations.at(symbol), operation.exit_ns).enter_ns);
    }
    return operation.exit_ns - last_enter_ns;
  }

  /// Whether an operation took about as long once all of a set were there as by those that left with it, or as its
  /// class usually does. Some other lane that left at that time by chance, and entered late, may have put it into a
  /// class of shorter ones.
  bool takes_as_long(std::size_t l, std::uint64_t symbol, const TurnOperation& operation, const LaneSet& set) const {
    if (operation.usual_transfer_ns == 0) return true;
    return is_as_short(time_together(l, symbol, operation, set),
                       std::max(operation.usual_transfer_ns, operation.transfer_ns));
  }
  static bool is_as_short(Nanoseconds time_ns, Nanoseconds usual_ns) {
    constexpr double most = 1.35;
    return static_cast<double>(time_ns) <= most * static_cast<double>(usual_ns);
  }

  /// Takes claims of exchanges back that, done with those members, would have taken much longer than half of theirs or
  /// any of their classes do: lanes in step leave exchanges with others together, and seem to have taken as long as
  /// they waited. Last of all, since until then such claims show that what lanes meet at a place is in doubt.
  void withdraw_slow_exchanges(std::size_t l) {
    for (auto& [symbol, operations] : lanes_[l].operations) {
      const Nanoseconds habit_ns = largest_habit(operations.front().operation);
      if (habit_ns == 0) continue;
      std::map<LaneSet, std::vector<std::pair<Nanoseconds, TurnOperation*>>> claims;
      for (TurnOperation& operation : operations) {
        if (operation.claimed == nullptr || operation.usual_transfer_ns == 0) continue;
        const Nanoseconds time_ns = time_together(l, symbol, operation, *operation.claimed) - habit_ns;
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
        const Nanoseconds habit_ns = habit(operations, found->second);
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

  std::vector<TurnLane> lanes_;
  std::map<std::pair<std::size_t, std::uint64_t>, std::vector<OperationClass>> classes_;  ///< by lane and symbol
  std::map<LaneSet, std::set<std::size_t>> noted_;                                        ///< by lanes
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
