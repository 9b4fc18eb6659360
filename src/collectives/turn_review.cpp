#include <algorithm>
#include <cstdlib>
#include <map>
#include <span>

#include "collectives/member_meetings.hpp"
#include "collectives/slices.hpp"
#include "collectives/turn_sets.hpp"

namespace nsys_explain::collectives {
namespace {

using SetsOfLanes = std::vector<std::vector<LaneSet>>;

/// Operations of one symbol that members of a set claim for it, by member.
using ClaimsOfMembers = std::vector<std::vector<TurnOperation*>>;

std::size_t position_in(const LaneSet& set, std::size_t l) {
  return static_cast<std::size_t>(std::lower_bound(set.begin(), set.end(), l) - set.begin());
}

std::map<LaneSet, std::map<std::uint64_t, ClaimsOfMembers>> claims_by_set(std::vector<TurnLane>& lanes) {
  std::map<LaneSet, std::map<std::uint64_t, ClaimsOfMembers>> claims;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    for (auto& [symbol, operations] : lanes[l].operations) {
      for (TurnOperation& operation : operations) {
        if (operation.claimed == nullptr) continue;
        const LaneSet& set = *operation.claimed;
        ClaimsOfMembers& of_members = claims[set][symbol];
        of_members.resize(set.size());
        of_members[position_in(set, l)].push_back(&operation);
      }
    }
  }
  return claims;
}

Operation operation_of(const ClaimsOfMembers& claims) {
  const auto any = std::find_if(claims.begin(), claims.end(), [](const auto& of_one) { return !of_one.empty(); });
  return any->front()->operation;
}

MemberOperations timed(const ClaimsOfMembers& claims) {
  MemberOperations operations;
  for (const std::vector<TurnOperation*>& of_member : claims) {
    std::vector<TimedOperation>& of_one = operations.emplace_back();
    for (const TurnOperation* operation : of_member) of_one.push_back({operation->enter_ns, operation->exit_ns});
  }
  return operations;
}

/// True where two members lie at one place of the communicators that hold them, as groups of one program do, or where
/// none are known.
bool lie_alike(const LaneSet& set, std::size_t one, std::size_t other, const SetsOfLanes& sets_of_lane) {
  bool crosses = false;
  for (const LaneSet& a : sets_of_lane[one]) {
    for (const LaneSet& b : sets_of_lane[other]) {
      const bool are_alike = a.size() == b.size() && a.back() - a.front() == b.back() - b.front();
      if (!are_alike || shared_members(set, a) > 1 || shared_members(set, b) > 1) continue;
      if (position_in(a, one) == position_in(b, other)) return true;
      crosses = true;
    }
  }
  return !crosses;
}

bool lies_across_others(const LaneSet& set, const SetsOfLanes& sets_of_lane) {
  for (std::size_t m = 1; m < set.size(); ++m) {
    if (!lie_alike(set, set[m - 1], set[m], sets_of_lane)) return false;
  }
  return true;
}

/// What other communicators hold of a set, by positions in it.
std::vector<Members> others_of(const LaneSet& set, const SetsOfLanes& sets_of_lane) {
  std::vector<Members> others;
  for (const std::size_t l : set) {
    for (const LaneSet& other : sets_of_lane[l]) {
      Members& held = others.emplace_back();
      for (const std::size_t member : other) {
        if (std::binary_search(set.begin(), set.end(), member)) held.push_back(position_in(set, member));
      }
    }
  }
  return others;
}

/// Of each member of a set, the part of it; nothing where there are none.
std::vector<const LaneSet*> parts_of(const LaneSet& set, const std::vector<Members>& parts, std::set<LaneSet>& kept) {
  std::vector<const LaneSet*> result(set.size(), nullptr);
  for (const Members& part : parts) {
    LaneSet lanes;
    for (const std::size_t member : part) lanes.push_back(set[member]);
    const LaneSet& of_part = *kept.insert(std::move(lanes)).first;
    for (const std::size_t member : part) result[member] = &of_part;
  }
  return result;
}

/// Claims of one set that are of one communicator or of none: what shards parameters gathers and scatters in the same
/// ones.
std::map<Operation, std::vector<const ClaimsOfMembers*>> by_kind(
    const std::map<std::uint64_t, ClaimsOfMembers>& by_symbol) {
  std::map<Operation, std::vector<const ClaimsOfMembers*>> kinds;
  for (const auto& [symbol, claims] : by_symbol) {
    const Operation operation = operation_of(claims);
    kinds[operation == Operation::all_gather ? Operation::reduce_scatter : operation].push_back(&claims);
  }
  return kinds;
}

void part_claims(std::vector<TurnLane>& lanes, const SetsOfLanes& sets_of_lane, std::set<LaneSet>& slices) {
  for (const auto& [set, by_symbol] : claims_by_set(lanes)) {
    const std::vector<Members> others = others_of(set, sets_of_lane);
    for (const auto& [operation, claims] : by_kind(by_symbol)) {
      // Exchanges cross nothing: those of a pipeline lie in a line.
      const bool lies_across = largest_habit(operation) > 0 || lies_across_others(set, sets_of_lane);
      std::vector<MemberOperations> kinds;
      for (const ClaimsOfMembers* of_members : claims) kinds.push_back(timed(*of_members));
      const PartingResult result = lies_across ? part_slices(kinds, others) : PartingResult{Parting::unknown, {}};
      if (result.parting == Parting::one) continue;
      const std::vector<const LaneSet*> claimed = parts_of(set, result.slices, slices);
      for (const ClaimsOfMembers* of_members : claims) {
        for (std::size_t m = 0; m < set.size(); ++m) {
          for (TurnOperation* of_member : (*of_members)[m]) of_member->claimed = claimed[m];
        }
      }
    }
  }
}

/// How the members of a set met in the operations that one of them claims for it.
std::vector<MemberMeeting> claimed_meetings(const std::vector<TurnLane>& lanes, std::uint64_t symbol,
                                            const LaneSet& set, std::size_t member,
                                            std::span<TurnOperation* const> operations) {
  std::vector<TimedOperation> own;
  for (const TurnOperation* operation : operations) own.push_back({operation->enter_ns, operation->exit_ns});
  std::vector<const std::vector<TurnOperation>*> others;
  for (std::size_t other = 0; other < set.size(); ++other) {
    const auto found = lanes[set[other]].operations.find(symbol);
    if (other != member && found != lanes[set[other]].operations.end()) others.push_back(&found->second);
  }
  return member_meetings<TurnOperation>(own, others);
}

/// Whether a lane that is no member entered an operation long after all members, and left together with one of them.
bool comes_outsider_last(const std::vector<TurnLane>& lanes, const LaneSet& set, std::size_t l, std::uint64_t symbol,
                         const TurnOperation& operation, const MemberMeeting& meeting) {
  constexpr Nanoseconds least_wait_ns = 20'000;
  const Nanoseconds tolerance_ns = exit_tolerance(operation.operation) + largest_habit(operation.operation) / 4;
  const std::vector<std::size_t>& neighbours = lanes[l].neighbours;
  return std::any_of(neighbours.begin(), neighbours.end(), [&](std::size_t other) {
    const auto found = lanes[other].operations.find(symbol);
    if (found == lanes[other].operations.end() || std::binary_search(set.begin(), set.end(), other)) return false;
    const TurnOperation& nearest = nearest_exit(found->second, operation.exit_ns);
    const Nanoseconds last_enter_ns = operation.exit_ns - meeting.took_ns;
    return std::abs(nearest.exit_ns - operation.exit_ns) <= tolerance_ns &&
           nearest.enter_ns - last_enter_ns > least_wait_ns;
  });
}

/// Those of lanes that no clock relates.
std::set<std::uint64_t> symbols_of_several_components(const std::vector<TurnLane>& lanes) {
  std::map<std::uint64_t, std::int32_t> component;
  std::set<std::uint64_t> symbols;
  for (const TurnLane& lane : lanes) {
    for (const auto& [symbol, operations] : lane.operations) {
      if (component.try_emplace(symbol, lane.component).first->second != lane.component) symbols.insert(symbol);
    }
  }
  return symbols;
}

/// Takes claims back of operations of a communicator that waited for others: for lanes that came last, or, where some
/// are on clocks that nothing relates, for whomever. Where they are many, all of the kind, if members of one are not
/// told by their exits or it is not known for whom they waited.
void take_back_waiting(const std::vector<TurnLane>& lanes, const LaneSet& set, std::uint64_t symbol,
                       const ClaimsOfMembers& claims, bool is_elsewhere) {
  std::vector<TurnOperation*> operations;
  std::vector<std::size_t> lane_of;  // of each of them
  std::vector<MemberMeeting> meetings;
  for (std::size_t m = 0; m < set.size(); ++m) {
    const std::vector<MemberMeeting> met = claimed_meetings(lanes, symbol, set, m, claims[m]);
    operations.insert(operations.end(), claims[m].begin(), claims[m].end());
    lane_of.resize(operations.size(), set[m]);
    meetings.insert(meetings.end(), met.begin(), met.end());
  }
  const Operation operation = operation_of(claims);
  const std::vector<bool> waited = have_waited(meetings);
  std::vector<bool> for_outsider = waited;
  for (std::size_t i = 0; i < waited.size(); ++i)
    for_outsider[i] = waited[i] && comes_outsider_last(lanes, set, lane_of[i], symbol, *operations[i], meetings[i]);
  // Members of an all-gather leave when they like.
  std::vector<bool> for_anybody;
  if (is_elsewhere) for_anybody = leaves_at_once(operation) ? have_waited_apart(meetings) : waited;
  const bool is_all = (largest_habit(operation) > 0 && are_many(for_outsider)) || are_many(for_anybody);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (is_all || (i < for_outsider.size() && for_outsider[i]) || (i < for_anybody.size() && for_anybody[i]))
      operations[i]->claimed = nullptr;
  }
}

}  // namespace

void review_claims(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane,
                   std::set<LaneSet>& slices) {
  part_claims(lanes, sets_of_lane, slices);
  const std::set<std::uint64_t> elsewhere = symbols_of_several_components(lanes);
  for (const auto& [set, by_symbol] : claims_by_set(lanes)) {
    for (const auto& [symbol, claims] : by_symbol)
      take_back_waiting(lanes, set, symbol, claims, elsewhere.contains(symbol));
  }
}

}  // namespace nsys_explain::collectives
