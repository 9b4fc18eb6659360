#include "collectives/lane_odds.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <vector>

#include "collectives/lane_relation.hpp"
#include "collectives/member_meetings.hpp"

namespace nsys_explain::collectives {
namespace {

/// Whether a kind of operation has members whose exits tell that they are.
bool tells_members(Operation operation) {
  return ends_sharply(operation) || operation == Operation::send_recv;
}

/// True where more of the operations that all members leave within a moment end on one of two lanes only, or at another
/// time on the other, than lost records explain: a communicator's operations end on all of its members. So do
/// all-to-alls, of which nearly all must end together to be some.
bool disagree(const Lane& a, const Lane& b, Nanoseconds far_ns) {
  constexpr double most_lost = 0.02, least_apart = 0.04;
  constexpr std::ptrdiff_t fewest_apart = 4;
  for (const auto& [symbol, operations] : a.exits) {
    const auto other = b.exits.find(symbol);
    const Operation operation = a.operation_of.at(symbol);
    if (other == b.exits.end() || !tells_members(operation)) continue;
    const std::optional<ExitAgreement> agreement = exit_agreement(operations, other->second, far_ns);
    if (!ends_sharply(operation) && (!agreement || agreement->shared_part < mostly_shared)) continue;
    if (!agreement) {
      const auto is_apart = [&, s = symbol](const TimedOperation& o) {
        return covers(b, s, o.exit_ns) && !ends_near(b, s, o.exit_ns, agreement_reach_ns);
      };
      if (std::count_if(operations.begin(), operations.end(), is_apart) >= fewest_apart) return true;
      continue;
    }
    const auto covered = static_cast<double>(agreement->covered), apart = static_cast<double>(agreement->apart);
    const double lost = most_lost * covered;
    if (apart >= std::max(least_apart * covered, lost + 3 * std::sqrt(lost) + 1)) return true;
  }
  return false;
}

/// Whether a lane disagrees with enough of its group to carry what they do not; of a large group a few are asked,
/// those next to it first.
bool disagrees_with_some(std::span<const Lane> lanes, std::size_t l, std::span<const std::size_t> group) {
  constexpr std::size_t most_asked = 16, one_in = 3;
  const auto own = static_cast<std::size_t>(std::find(group.begin(), group.end(), l) - group.begin());
  const std::size_t asked = std::min(group.size() - 1, most_asked);
  const Nanoseconds far_ns = std::max(10 * lanes[l].best_spread_ns, sharp_ns);
  std::size_t disagreeing = 0;
  for (std::size_t next = 1; next <= asked; ++next)
    disagreeing += disagree(lanes[l], lanes[group[(own + next) % group.size()]], far_ns) ? 1 : 0;
  return disagreeing > 0 && one_in * disagreeing >= asked;
}

/// Whether exchanges, on a lane that carries more than those, end together with a lane outside of the group better
/// than with one inside.
bool meets_outsider(std::span<const Lane> lanes, std::size_t l, std::span<const std::size_t> group) {
  constexpr Nanoseconds times = 2;
  const Lane& lane = lanes[l];
  if (lane.exits.size() < 2) return false;
  for (const auto& [symbol, operation] : lane.operation_of) {
    if (operation != Operation::send_recv) continue;
    Nanoseconds inside_ns = std::numeric_limits<Nanoseconds>::max(), outside_ns = inside_ns;
    for (std::size_t other = 0; other < lanes.size(); ++other) {
      if (lanes[other].trace_rank == lane.trace_rank || lanes[other].component != lane.component) continue;
      const auto found = lanes[other].exits.find(symbol);
      if (found == lanes[other].exits.end()) continue;
      const std::optional<ExitAgreement> agreement = exit_agreement(lane.exits.at(symbol), found->second);
      if (!agreement || !ends_together(*agreement)) continue;
      Nanoseconds& best_ns = std::binary_search(group.begin(), group.end(), other) ? inside_ns : outside_ns;
      best_ns = std::min(best_ns, std::max(agreement->exit_spread_ns, least_spread_ns(operation)));
    }
    if (outside_ns < inside_ns / times) return true;
  }
  return false;
}

/// Exits of one operation lie within this: members of exchanges leave early or late by habits of their own.
Nanoseconds reach_of(Operation operation) {
  return operation == Operation::send_recv ? 12'000 : 4'000;
}

/// Of each operation of a lane, how its group met in it.
std::vector<MemberMeeting> group_meetings(std::span<const Lane> lanes, std::size_t l,
                                          std::span<const std::size_t> group, std::uint64_t symbol) {
  std::vector<const std::vector<TimedOperation>*> others;
  for (const std::size_t member : group) {
    const auto found = lanes[member].exits.find(symbol);
    if (member != l && found != lanes[member].exits.end()) others.push_back(&found->second);
  }
  return member_meetings<TimedOperation>(lanes[l].exits.at(symbol), others);
}

/// Median distance from the median.
Nanoseconds scatter(std::vector<Nanoseconds> times_ns) {
  const Nanoseconds middle_ns = middle_of(times_ns);
  for (Nanoseconds& time_ns : times_ns) time_ns = std::abs(time_ns - middle_ns);
  return middle_of(std::move(times_ns));
}

/// Whether another lane entered operations long after all of a group and yet left together with them. Waiting for it
/// is what took most of the time then, so that the two do not merely differ in what they transfer; nor do they end
/// together by chance: operations took longer than others did, or longer where they waited longer.
bool comes_last(const Lane& other, const Lane& lane, std::uint64_t symbol, std::span<const MemberMeeting> met) {
  constexpr Nanoseconds least_wait_ns = 20'000;
  constexpr std::size_t fewest = 4, one_in = 20;
  const Nanoseconds reach_ns = reach_of(lane.operation_of.at(symbol));
  const std::vector<TimedOperation>& operations = lane.exits.at(symbol);
  std::size_t covered = 0;
  std::vector<Nanoseconds> waits_ns, took_ns;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (!covers(other, symbol, operations[i].exit_ns)) continue;
    ++covered;
    const TimedOperation& its = nearest_exit(other.exits.at(symbol), operations[i].exit_ns);
    if (std::abs(its.exit_ns - operations[i].exit_ns) > reach_ns) continue;
    const Nanoseconds wait_ns = its.enter_ns - (operations[i].exit_ns - met[i].took_ns);
    if (wait_ns <= std::max(least_wait_ns, (its.exit_ns - its.enter_ns) / 2)) continue;
    waits_ns.push_back(wait_ns);
    took_ns.push_back(met[i].took_ns);
  }
  if (waits_ns.size() < std::max(fewest, covered / one_in)) return false;
  const bool took_longer = middle_of(took_ns) - usual_ns(met) >= middle_of(waits_ns) / 2;
  const bool took_as_long_as_waits = scatter(waits_ns) >= 2 * reach_ns && 2 * scatter(took_ns) >= scatter(waits_ns);
  return took_longer || took_as_long_as_waits;
}

constexpr std::size_t fewest_larger = 8;

/// How far exits of a lane typically lie from those of another one, for some of its operations: more than any do that
/// end together where many do not. Nothing where too few were captured.
std::optional<Nanoseconds> typical_distance(const Lane& lane, const Lane& other, std::uint64_t symbol,
                                            std::span<const std::size_t> operations) {
  const auto found = other.exits.find(symbol);
  if (found == other.exits.end() || found->second.empty()) return std::nullopt;
  constexpr double least_rate = 0.85;
  const Nanoseconds reach_ns = reach_of(lane.operation_of.at(symbol));
  const std::vector<TimedOperation>& own = lane.exits.at(symbol);
  std::vector<Nanoseconds> differences_ns;
  std::size_t covered = 0;
  for (const std::size_t i : operations) {
    const Nanoseconds exit_ns = own[i].exit_ns;
    if (!covers(other, symbol, exit_ns)) continue;
    ++covered;
    const Nanoseconds difference_ns = nearest_exit(found->second, exit_ns).exit_ns - exit_ns;
    if (std::abs(difference_ns) <= reach_ns) differences_ns.push_back(difference_ns);
  }
  if (covered < fewest_larger) return std::nullopt;
  if (static_cast<double>(differences_ns.size()) < least_rate * static_cast<double>(covered)) return reach_ns;
  return scatter(std::move(differences_ns));
}

/// The least typical distance to lanes of other trace ranks inside of a group, or outside; nothing where none is known.
std::optional<Nanoseconds> least_distance(std::span<const Lane> lanes, std::size_t l,
                                          std::span<const std::size_t> group, bool is_inside, std::uint64_t symbol,
                                          std::span<const std::size_t> operations) {
  std::optional<Nanoseconds> least_ns;
  for (std::size_t other = 0; other < lanes.size(); ++other) {
    if (lanes[other].trace_rank == lanes[l].trace_rank || lanes[other].component != lanes[l].component) continue;
    if (std::binary_search(group.begin(), group.end(), other) != is_inside) continue;
    const std::optional<Nanoseconds> found_ns = typical_distance(lanes[l], lanes[other], symbol, operations);
    if (found_ns) least_ns = std::min(least_ns.value_or(*found_ns), *found_ns);
  }
  return least_ns;
}

/// Whether the larger operations of a lane end together with a lane outside of its group far more closely than with all
/// inside: groups that hold each other in step end together, too.
bool larger_ones_meet_outsider(std::span<const Lane> lanes, std::size_t l, std::span<const std::size_t> group) {
  constexpr Nanoseconds times = 3, least_ns = 200;
  constexpr double larger = 1.3;
  for (const auto& [symbol, operation] : lanes[l].operation_of) {
    if (operation != Operation::all_reduce) continue;  // others' members leave less closely
    const std::vector<MemberMeeting> met = group_meetings(lanes, l, group, symbol);
    const auto usual = static_cast<double>(usual_ns(met));
    if (usual <= 0) continue;  // what is nearest is often the next one
    std::vector<std::size_t> longer;
    for (std::size_t i = 0; i < met.size(); ++i) {
      if (static_cast<double>(met[i].took_ns) > larger * usual) longer.push_back(i);
    }
    if (longer.size() < fewest_larger) continue;
    const std::optional<Nanoseconds> outside_ns = least_distance(lanes, l, group, false, symbol, longer);
    if (!outside_ns) continue;
    const std::optional<Nanoseconds> inside_ns = least_distance(lanes, l, group, true, symbol, longer);
    if (inside_ns && times * std::max(least_ns, *outside_ns) <= *inside_ns) return true;
  }
  return false;
}

/// The same of some members of the group, where there are lanes outside of it.
bool larger_ones_meet_outsiders(std::span<const Lane> lanes, std::span<const std::size_t> group) {
  constexpr std::size_t most_asked = 16;
  const std::int32_t component = lanes[group.front()].component;
  const auto related =
      std::count_if(lanes.begin(), lanes.end(), [&](const Lane& lane) { return lane.component == component; });
  if (static_cast<std::size_t>(related) <= group.size()) return false;
  const std::size_t every = (group.size() + most_asked - 1) / most_asked;
  for (std::size_t m = 0; m < group.size(); m += every) {
    if (larger_ones_meet_outsider(lanes, group[m], group)) return true;
  }
  return false;
}

/// Whether operations of a lane that carries several kinds waited, again and again, for one outside of its group.
bool waits_for_outsider(std::span<const Lane> lanes, std::size_t l, std::span<const std::size_t> group) {
  const Lane& lane = lanes[l];
  if (lane.exits.size() < 2) return false;
  for (const auto& [symbol, operation] : lane.operation_of) {
    if (!tells_members(operation)) continue;
    const std::vector<MemberMeeting> met = group_meetings(lanes, l, group, symbol);
    for (std::size_t other = 0; other < lanes.size(); ++other) {
      if (lanes[other].trace_rank == lane.trace_rank || lanes[other].component != lane.component) continue;
      if (std::binary_search(group.begin(), group.end(), other)) continue;
      if (comes_last(lanes[other], lane, symbol, met)) return true;
    }
  }
  return false;
}

/// Whether lanes of a group waited for others, each for its own, in a job of lanes that no clock relates.
bool waits_for_unrelated(std::span<const Lane> lanes, std::size_t l, std::span<const std::size_t> group) {
  for (const auto& [symbol, operation] : lanes[l].operation_of) {
    const bool is_elsewhere = std::any_of(lanes.begin(), lanes.end(), [&, s = symbol](const Lane& other) {
      return other.component != lanes[l].component && other.exits.contains(s);
    });
    if (!is_elsewhere || !tells_members(operation)) continue;
    if (are_many(have_waited_apart(group_meetings(lanes, l, group, symbol)))) return true;
  }
  return false;
}

/// Whether members leave operations of a kind not as one, but in parts.
bool leaves_in_parts(std::span<const Lane> lanes, std::span<const std::size_t> group) {
  constexpr std::size_t fewest_operations = 8, most_members = 128;
  if (group.size() < 3 || group.size() > most_members) return false;
  for (const auto& of_symbol : lanes[group.front()].exits) {
    const ExitTable table = exits_of(lanes, group, of_symbol.first);
    if (table.exits.size() < fewest_operations * group.size()) continue;
    const std::vector<std::size_t> kept = leave_as_one(table, 0);
    if (kept.size() < group.size() && vary_apart(table, kept)) return true;
  }
  return false;
}

}  // namespace

bool are_at_odds(std::span<const Lane> lanes, std::span<const std::size_t> group) {
  if (group.size() < 2) return false;
  const std::size_t first = group.front();
  return std::any_of(group.begin(), group.end(), [&](std::size_t l) { return disagrees_with_some(lanes, l, group); }) ||
         meets_outsider(lanes, first, group) || larger_ones_meet_outsiders(lanes, group) ||
         waits_for_outsider(lanes, first, group) || waits_for_unrelated(lanes, first, group) ||
         leaves_in_parts(lanes, group);
}

}  // namespace nsys_explain::collectives
