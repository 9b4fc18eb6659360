#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "collectives/exit_agreement.hpp"
#include "collectives/exit_clusters.hpp"
#include "collectives/inference.hpp"
#include "collectives/lane_odds.hpp"
#include "collectives/lane_relation.hpp"
#include "collectives/lanes.hpp"
#include "collectives/matching.hpp"
#include "collectives/slices.hpp"

namespace nsys_explain::collectives {
namespace {

/// All-reduces that scatter so many times as much as they do with another lane are not shared.
constexpr Nanoseconds far_apart = 2;

/// Rough clocks of related lanes are good to this. Operations that all members leave at once and that lie further apart
/// are two: one that always follows the other agrees with it, but for the time between them.
constexpr Nanoseconds largest_shift_ns = 15'000;

/// How the operations of two lanes end. Lanes that a third one holds in step may end some kind of operation together;
/// those of one communicator end all.
struct LaneAgreement {
  std::optional<ExitAgreement> best;  ///< of the symbol that tells most: the one whose exits agree best
  Nanoseconds all_reduce_ns = 0;      ///< spread of all-reduces; 0: too few
  Nanoseconds loosest_ns = 0;         ///< spread of the sharp operations that agree worst
};

LaneAgreement lane_agreement(const Lane& a, const Lane& b) {
  constexpr std::size_t fewest_telling = 16;
  LaneAgreement result;
  for (const auto& [symbol, operations] : a.exits) {
    const auto other = b.exits.find(symbol);
    if (other == b.exits.end()) continue;
    const std::optional<ExitAgreement> agreement = exit_agreement(operations, other->second);
    if (!agreement) continue;
    const Operation operation = a.operation_of.at(symbol);
    const Nanoseconds spread_ns = std::max(agreement->exit_spread_ns, least_spread_ns(operation));
    if (ends_sharply(operation) && std::abs(agreement->shift_ns) > largest_shift_ns) continue;
    if (agreement->pairs >= fewest_telling && ends_sharply(operation)) {
      if (operation == Operation::all_reduce) result.all_reduce_ns = std::max(result.all_reduce_ns, spread_ns);
      result.loosest_ns = std::max(result.loosest_ns, spread_ns);
    }
    if (!ends_together(*agreement)) continue;
    if (result.best && result.best->exit_spread_ns <= spread_ns) continue;
    result.best = agreement;
    result.best->exit_spread_ns = spread_ns;
  }
  return result;
}

std::vector<std::uint64_t> symbols_of(const Lane& lane) {
  std::vector<std::uint64_t> symbols;
  for (const auto& [symbol, operations] : lane.exits) symbols.push_back(symbol);
  return symbols;
}

class Grouper {
 public:
  explicit Grouper(std::vector<Lane> lanes) : lanes_(std::move(lanes)) {
    for (const Lane& lane : lanes_) names_of_rank_[lane.trace_rank].insert(lane.name);
  }

  /// `may_take_turns`: a lane may carry several communicators.
  LaneRoles run(bool may_take_turns) {
    std::size_t next_group = 0;
    bool any = false;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      if (lanes_[l].group != no_group) continue;
      any = gather(l, next_group) || any;
      ++next_group;
    }
    part_companions(next_group, may_take_turns ? 16 : 4);
    LaneRoles roles;
    if (!any && !has_evidence()) return roles;
    const std::set<std::size_t> taking_turns = may_take_turns ? groups_taking_turns() : groups_at_odds();
    part_groups(next_group, taking_turns);
    std::map<std::size_t, std::size_t> size_of;
    for (const Lane& lane : lanes_) ++size_of[lane.group];
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      const Lane& lane = lanes_[l];
      const bool takes_turns = taking_turns.contains(lane.group);
      roles[{lane.trace_rank, lane.lane}] = {
          .key = takes_turns ? next_group++ : lane.group,
          .takes_turns = takes_turns || (size_of.at(lane.group) == 1 && !lane.is_named_elsewhere && !lane.is_untold),
          .meets_several = meets_several(l)};
    }
    return roles;
  }

 private:
  /// True where lanes that agree with none do so because they truly differ.
  bool has_evidence() const {
    constexpr std::size_t fewest_operations = 32;
    std::set<std::int32_t> seen;  // components of lanes that did enough to be told apart
    return std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
      std::size_t operations = 0;
      for (const auto& [symbol, exits] : lane.exits) operations += exits.size();
      return lane.is_named_elsewhere || (operations >= fewest_operations && !seen.insert(lane.component).second);
    });
  }

  /// Communicators that a third one holds in step agree by chance, above all over few operations; but they do not leave
  /// as one. On a rough clock that takes more operations to tell.
  void part_companions(std::size_t& next_group, std::size_t fewest_operations) {
    constexpr std::size_t most_members = 128;
    for (auto& [group, left] : groups()) {
      while (left.size() > 2 && left.size() <= most_members) {
        const ExitTable table = exits_of(lanes_, left);
        if (table.exits.size() < fewest_operations * left.size()) break;
        const std::vector<std::size_t> kept = leave_as_one(table, 0);
        if (kept.size() == left.size() || !vary_apart(table, kept)) break;
        for (std::size_t k = kept.size(); k-- > 0;) {
          lanes_[left[kept[k]]].group = next_group;
          left.erase(left.begin() + static_cast<std::ptrdiff_t>(kept[k]));
        }
        ++next_group;
      }
    }
  }

  /// Parts groups of lanes that something holds in step, except some: into several, or where it cannot be told how,
  /// into lanes of their own.
  void part_groups(std::size_t& next_group, const std::set<std::size_t>& except) {
    for (const auto& [group, members] : groups()) {
      if (except.contains(group) || members.size() < 3) continue;
      const PartingResult result = part_slices(operations_of(members), others_of(group, members));
      if (result.parting == Parting::unknown) {
        for (const std::size_t member : members) {
          lanes_[member].group = next_group++;
          lanes_[member].is_untold = true;
        }
      }
      for (const Members& slice : result.slices) {
        for (const std::size_t member : slice) lanes_[members[member]].group = next_group;
        ++next_group;
      }
    }
  }

  /// What other groups hold of the members of one.
  std::vector<Members> others_of(std::size_t group, std::span<const std::size_t> members) const {
    std::map<std::size_t, Members> of_group;
    for (std::size_t m = 0; m < members.size(); ++m) {
      for (const Lane& lane : lanes_) {
        if (lane.trace_rank == lanes_[members[m]].trace_rank && lane.group != group) of_group[lane.group].push_back(m);
      }
    }
    std::vector<Members> others;
    for (auto& [key, of_one] : of_group) others.push_back(std::move(of_one));
    return others;
  }

  /// By symbol; of all kinds that members leave together without habits of their own.
  std::vector<MemberOperations> operations_of(std::span<const std::size_t> members) const {
    std::vector<MemberOperations> kinds;
    for (const auto& [symbol, operation] : lanes_[members.front()].operation_of) {
      if (operation == Operation::send_recv) continue;
      MemberOperations& operations = kinds.emplace_back();
      for (const std::size_t member : members) {
        const auto found = lanes_[member].exits.find(symbol);
        operations.push_back(found == lanes_[member].exits.end() ? std::vector<TimedOperation>{} : found->second);
      }
    }
    return kinds;
  }

  /// An exchange of two ends together with one other member's, whoever that is; an all-to-all with everybody's. Lanes
  /// that others hold in step, so that they enter as close together as they leave, meet whom one of them meets: they
  /// count once, or two exchanges side by side would look like an all-to-all of four. Of a large group some are asked.
  bool meets_several(std::size_t l) const {
    constexpr double least_meetings = 1.5, least_part = 0.5, most_asked = 16;
    for (const auto& [symbol, operation] : lanes_[l].operation_of) {
      if (operation != Operation::send_recv) continue;
      double meetings = 0, others = 0;  // of one operation, on average
      std::vector<std::size_t> met;     // one of each that are in step
      for (std::size_t other = 0; other < lanes_.size() && others < most_asked; ++other) {
        if (other == l || lanes_[other].group != lanes_[l].group || !lanes_[other].exits.contains(symbol)) continue;
        const auto agreement = agreement_of(l, other, symbol);
        const bool is_in_step = std::any_of(
            met.begin(), met.end(), [&, s = symbol](std::size_t m) { return are_in_step(agreement_of(m, other, s)); });
        if (is_in_step || are_in_step(agreement)) continue;
        if (agreement && ends_together(*agreement)) {
          meetings += agreement->shared_part;
          met.push_back(other);
        }
        ++others;
      }
      if (meetings >= std::max(least_meetings, least_part * others)) return true;
    }
    return false;
  }

  std::optional<ExitAgreement> agreement_of(std::size_t a, std::size_t b, std::uint64_t symbol) const {
    return exit_agreement(lanes_[a].exits.at(symbol), lanes_[b].exits.at(symbol));
  }

  static bool are_in_step(const std::optional<ExitAgreement>& agreement) {
    constexpr Nanoseconds in_step_ns = 25'000;
    return agreement && !ends_together(*agreement) && agreement->enter_spread_ns <= in_step_ns;
  }

  /// The operations of a lane that end with none of its group's, though those were captured at the time. Members leave
  /// all-gathers when they like, so that those say nothing.
  Lane unexplained(std::size_t l, std::span<const std::size_t> group, Nanoseconds tolerance_ns) const {
    Lane rest = lanes_[l];
    std::erase_if(rest.exits,
                  [&](const auto& entry) { return rest.operation_of.at(entry.first) == Operation::all_gather; });
    for (auto& [symbol, operations] : rest.exits) {
      std::erase_if(operations, [&, s = symbol](const TimedOperation& operation) {
        bool is_covered = false, is_explained = false;
        for (const std::size_t other : group) {
          if (other == l) continue;
          is_covered = is_covered || covers(lanes_[other], s, operation.exit_ns);
          is_explained = is_explained || ends_near(lanes_[other], s, operation.exit_ns, tolerance_ns);
        }
        return !is_covered || is_explained;
      });
    }
    return rest;
  }

  std::set<std::size_t> groups_at_odds() const {
    constexpr std::ptrdiff_t most_asked = 16;
    std::set<std::size_t> found;
    const std::map<std::size_t, std::vector<std::size_t>> all = groups();
    for (auto group = all.begin(); group != all.end(); ++group) {
      if (are_at_odds(lanes_, group->second)) found.insert(group->first);
      std::ptrdiff_t asked = 0;
      for (auto other = std::next(group); other != all.end() && asked < most_asked; ++other) {
        if (!are_alike(group->second, other->second)) continue;
        ++asked;
        if (wait_for_each_other(group->second, other->second)) found.insert({group->first, other->first});
      }
    }
    return found;
  }

  /// Groups of as many lanes, of other trace ranks, on related clocks.
  bool are_alike(std::span<const std::size_t> a, std::span<const std::size_t> b) const {
    if (a.size() != b.size() || a.size() < 2 || lanes_[a.front()].component != lanes_[b.front()].component)
      return false;
    return std::none_of(a.begin(), a.end(), [&](std::size_t l) {
      return std::any_of(b.begin(), b.end(),
                         [&](std::size_t m) { return lanes_[l].trace_rank == lanes_[m].trace_rank; });
    });
  }

  bool wait_for_each_other(const std::vector<std::size_t>& a, const std::vector<std::size_t>& b) const {
    std::vector<std::size_t> both = a;
    both.insert(both.end(), b.begin(), b.end());
    Members first(a.size()), second(b.size());
    std::iota(first.begin(), first.end(), std::size_t{0});
    std::iota(second.begin(), second.end(), a.size());
    const std::vector<MemberOperations> kinds = operations_of(both);
    return std::any_of(kinds.begin(), kinds.end(), [&](const MemberOperations& operations) {
      return collectives::wait_for_each_other(operations, first, second);
    });
  }

  std::map<std::size_t, std::vector<std::size_t>> groups() const {
    std::map<std::size_t, std::vector<std::size_t>> members;
    for (std::size_t l = 0; l < lanes_.size(); ++l) members[lanes_[l].group].push_back(l);
    return members;
  }

  /// Groups whose lanes carry another communicator besides: all-reduces or reduce-scatters of theirs end apart, or what
  /// is left of their operations ends together with what is left of lanes of another group. Which operation is whose
  /// cannot be told safely then.
  std::set<std::size_t> groups_taking_turns() const {
    std::set<std::size_t> found = groups_at_odds();
    const std::map<std::size_t, std::vector<std::size_t>> members = groups();
    std::vector<Lane> rests;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      const std::vector<std::size_t>& group = members.at(lanes_[l].group);
      const bool is_told = group.size() > 1 && !lanes_[l].point_to_point;
      rests.push_back(is_told ? unexplained(l, group, 8 * lanes_[l].loosest_ns) : Lane{});
    }
    for (const auto& [a, b] : lanes_that_meet(rests)) {
      if (found.contains(lanes_[a].group) && found.contains(lanes_[b].group)) continue;
      if (!lane_agreement(rests[a], rests[b]).best) continue;
      found.insert(lanes_[a].group);
      found.insert(lanes_[b].group);
    }
    spread_to_programs(members, found);
    return found;
  }

  /// All ranks run one program: what carries the same kinds of operations elsewhere takes turns as well, unless so few
  /// groups that do seem to that chance may have made them.
  void spread_to_programs(const std::map<std::size_t, std::vector<std::size_t>>& members,
                          std::set<std::size_t>& taking_turns) const {
    constexpr std::size_t one_in = 12;
    struct Groups {
      std::set<std::size_t> all, of_several_lanes, taking_turns;
    };
    std::map<std::vector<std::uint64_t>, Groups> programs;
    for (const Lane& lane : lanes_) {
      Groups& groups = programs[symbols_of(lane)];
      groups.all.insert(lane.group);
      if (members.at(lane.group).size() > 1) groups.of_several_lanes.insert(lane.group);
      if (taking_turns.contains(lane.group)) groups.taking_turns.insert(lane.group);
    }
    for (const auto& [program, groups] : programs) {
      if (!groups.taking_turns.empty() && one_in * groups.taking_turns.size() >= groups.of_several_lanes.size())
        taking_turns.insert(groups.all.begin(), groups.all.end());
    }
  }

  /// Pairs of lanes of different groups of which several operations end at about one time.
  std::set<std::pair<std::size_t, std::size_t>> lanes_that_meet(std::span<const Lane> rests) const {
    constexpr std::size_t most_neighbours = 16;
    constexpr int fewest_meetings = 3;
    std::vector<std::tuple<std::int32_t, std::uint64_t, Nanoseconds, std::size_t>> ends;
    for (std::size_t l = 0; l < rests.size(); ++l) {
      for (const auto& [symbol, operations] : rests[l].exits) {
        for (const TimedOperation& operation : operations)
          ends.emplace_back(rests[l].component, symbol, operation.exit_ns, l);
      }
    }
    std::sort(ends.begin(), ends.end());
    std::map<std::pair<std::size_t, std::size_t>, int> meetings;
    for (std::size_t e = 0; e < ends.size(); ++e) {
      const auto& [component, symbol, exit_ns, l] = ends[e];
      for (std::size_t n = e + 1; n < ends.size() && n <= e + most_neighbours; ++n) {
        const auto& [other_component, other_symbol, other_exit_ns, other] = ends[n];
        if (other_component != component || other_symbol != symbol || other_exit_ns - exit_ns > sharp_ns) break;
        if (lanes_[l].group != lanes_[other].group) ++meetings[std::minmax(l, other)];
      }
    }
    std::set<std::pair<std::size_t, std::size_t>> pairs;
    for (const auto& [pair, count] : meetings) {
      if (count >= fewest_meetings) pairs.insert(pair);
    }
    return pairs;
  }

  /// Makes the group of one lane. Members of a point-to-point group need not share operations with the first one, and
  /// chance may set apart two that truly agree, so partners are asked in turn: all of them, or a few.
  bool gather(std::size_t first, std::size_t group) {
    constexpr std::size_t most_asked = 8;
    std::vector<std::size_t> members{first};
    std::set<std::int32_t> ranks{lanes_[first].trace_rank};
    lanes_[first].group = group;
    for (std::size_t m = 0; m < members.size(); ++m) {
      if (m >= most_asked && !lanes_[members[m]].point_to_point) break;
      for (const std::size_t partner : partners(members[m])) {
        if (!ranks.insert(lanes_[partner].trace_rank).second) continue;
        lanes_[partner].group = group;
        members.push_back(partner);
      }
    }
    return members.size() > 1;
  }

  /// True where one of the trace ranks has another lane of the name that the other's lane has.
  bool are_named_apart(const Lane& a, const Lane& b) const {
    if (a.name.empty() || b.name.empty() || a.name == b.name) return false;
    return names_of_rank_.at(a.trace_rank).contains(b.name) || names_of_rank_.at(b.trace_rank).contains(a.name);
  }

  /// Lanes without a group that end together with this one, the sharpest first. One that agrees much worse than the
  /// best of any lane does belongs to another group of the same kind.
  std::vector<std::size_t> partners(std::size_t l) {
    struct Partner {
      Nanoseconds spread_ns;
      std::size_t lane;
      LaneAgreement agreement;
    };
    std::vector<Partner> found;
    for (std::size_t other = 0; other < lanes_.size(); ++other) {
      const Lane& candidate = lanes_[other];
      if (candidate.group != no_group || candidate.trace_rank == lanes_[l].trace_rank ||
          candidate.component != lanes_[l].component || are_named_apart(lanes_[l], candidate)) {
        continue;
      }
      const LaneAgreement agreement = lane_agreement(lanes_[l], candidate);
      for (const std::size_t lane : {l, other}) {
        if (agreement.all_reduce_ns > 0)
          lanes_[lane].sharpest_ns = std::min(lanes_[lane].sharpest_ns, agreement.all_reduce_ns);
      }
      if (agreement.best) found.push_back({agreement.best->exit_spread_ns, other, agreement});
    }
    std::erase_if(found,
                  [&](const Partner& p) { return p.agreement.all_reduce_ns / far_apart > lanes_[l].sharpest_ns; });
    std::sort(found.begin(), found.end(), [](const Partner& a, const Partner& b) {
      return std::tie(a.spread_ns, a.lane) < std::tie(b.spread_ns, b.lane);
    });
    Nanoseconds& best_ns = lanes_[l].best_spread_ns;
    if (!found.empty()) best_ns = std::min(best_ns, found.front().spread_ns);
    std::vector<std::size_t> result;
    // Where only half of the operations are shared, the spread reaches into the tail of those. A lane that shares all
    // of them with another shares no part with a third.
    const bool shares_half = lanes_[l].point_to_point && std::none_of(found.begin(), found.end(), [](const Partner& p) {
                               return p.agreement.best->shared_part >= mostly_shared;
                             });
    for (const auto& [spread_ns, other, agreement] : found) {
      const double worst_ratio = worst_spread_ratio(agreement.best->pairs) * (shares_half ? 2 : 1);
      if (lanes_[l].point_to_point && !shares_half && agreement.best->shared_part < mostly_shared) continue;
      const Nanoseconds reference_ns = std::min(best_ns, lanes_[other].best_spread_ns);
      if (static_cast<double>(spread_ns) > worst_ratio * static_cast<double>(reference_ns)) continue;
      lanes_[other].best_spread_ns = std::min(lanes_[other].best_spread_ns, spread_ns);
      for (const std::size_t lane : {l, other})
        lanes_[lane].loosest_ns = std::max({lanes_[lane].loosest_ns, spread_ns, agreement.loosest_ns});
      result.push_back(other);
    }
    return result;
  }

  std::vector<Lane> lanes_;
  std::map<std::int32_t, std::set<std::string>> names_of_rank_;
};

/// Where nothing can be told: one communicator, if no trace rank has more than one, else each lane by itself.
LaneRoles untold_roles(std::span<const Lane> lanes) {
  std::set<std::int32_t> trace_ranks;
  for (const Lane& lane : lanes) trace_ranks.insert(lane.trace_rank);
  const bool is_one = trace_ranks.size() == lanes.size();
  LaneRoles roles;
  for (const Lane& lane : lanes) roles[{lane.trace_rank, lane.lane}].key = is_one ? 0 : roles.size();
  return roles;
}

}  // namespace

LaneRoles group_lanes(std::span<const SampledOperation> samples, const RoughClocks& clocks) {
  return Grouper(make_lanes(samples, clocks, 0, first_category_lane, false)).run(true);
}

LaneRoles group_category_lanes(std::span<const SampledOperation> samples, const RoughClocks& clocks,
                               const GivenNames& names) {
  const auto is_category = [](const SampledOperation& operation) {
    return operation.lane >= first_category_lane && !names_communicator(operation.lane);
  };
  if (std::none_of(samples.begin(), samples.end(), is_category)) return {};
  std::vector<Lane> lanes = make_lanes(samples, clocks, first_category_lane, first_named_key, true);
  for (Lane& lane : lanes) {
    const auto named = names.find({lane.trace_rank, lane.lane});
    if (named != names.end()) lane.name = named->second;
  }
  LaneRoles roles = Grouper(lanes).run(false);
  if (roles.empty()) roles = untold_roles(lanes);
  for (auto& [lane, role] : roles) role = {first_named_key + role.key, false, role.meets_several};
  return roles;
}

void apply_lane_roles(std::span<Arrival> arrivals, const LaneRoles& roles) {
  std::map<std::uint64_t, std::int32_t> next_position;
  for (Arrival& arrival : arrivals) {
    if (!names_communicator(arrival.communicator)) {
      const auto found = roles.find({arrival.trace_rank, arrival.communicator});
      if (found != roles.end()) {
        arrival.communicator = found->second.key;
        if (found->second.meets_several && is_pair_exchange(arrival)) arrival.peer_or_root = several_peers;
      }
    }
    arrival.position = next_position[arrival.communicator]++;
  }
}

void apply_lane_roles(std::span<SampledOperation> samples, const LaneRoles& roles) {
  for (SampledOperation& sample : samples) {
    const auto found = roles.find({sample.trace_rank, sample.lane});
    if (found == roles.end()) continue;
    sample.lane = found->second.key;
    sample.meets_several = sample.meets_several || found->second.meets_several;
  }
}

GivenNames apply_lane_roles(const GivenNames& names, const LaneRoles& roles) {
  GivenNames result;
  for (const auto& [lane, name] : names) {
    const auto found = roles.find(lane);
    result[{lane.first, found == roles.end() ? lane.second : found->second.key}] = name;
  }
  return result;
}

}  // namespace nsys_explain::collectives
