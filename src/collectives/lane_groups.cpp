#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <tuple>

#include "exit_agreement.hpp"
#include "exit_clusters.hpp"
#include "lane_relation.hpp"
#include "nsys_explain/collectives/inference.hpp"
#include "nsys_explain/collectives/matching.hpp"
#include "rank_clocks.hpp"
#include "shift_candidates.hpp"

namespace nsys_explain::collectives {
namespace {

constexpr std::size_t no_group = std::numeric_limits<std::size_t>::max();

/// The sampled operations of one lane, on the common clock.
struct Lane {
  std::int32_t trace_rank = -1;
  std::uint64_t lane = 0;
  std::string name;  ///< what the program calls its communicator; empty: not known
  std::int32_t component = 0;
  bool point_to_point = false;                                 ///< most of its operations are sends and receives
  std::map<std::uint64_t, std::vector<TimedOperation>> exits;  ///< of synchronising operations, by symbol
  std::map<std::uint64_t, Operation> operation_of;             ///< by symbol
  bool is_named_elsewhere = false;                             ///< some of its operations are of communicators that
                                                               ///< other calls on the trace rank name
  std::size_t group = no_group;
  Nanoseconds best_spread_ns = std::numeric_limits<Nanoseconds>::max();  ///< of the exits it shares with another lane
  Nanoseconds sharpest_ns = std::numeric_limits<Nanoseconds>::max();     ///< of all-reduces, with any lane
  Nanoseconds loosest_ns = 0;                                            ///< see LaneAgreement
};

/// What every kernel shows of an operation (see may_be_one).
std::uint64_t kind_of(std::uint64_t symbol) {
  return symbol >> 32U;
}

/// A stage within a pipeline shares half of its exchanges with a neighbour; two that share more do the same.
constexpr double mostly_shared = 0.75;

/// All-reduces that scatter so many times as much as they do with another lane are not shared.
constexpr Nanoseconds far_apart = 2;

/// Exits do not agree better than this; a few may by chance.
Nanoseconds least_spread_ns(Operation operation) {
  return operation == Operation::reduce_scatter || operation == Operation::all_gather ? 500 : 150;
}

/// Rough clocks of related lanes are good to this. Operations that all members leave at once and that lie further apart
/// are two: one that always follows the other agrees with it, but for the time between them.
constexpr Nanoseconds largest_shift_ns = 15'000;

/// Enough operations to tell groups apart: the same stretch of time on every lane of a like pace.
void keep_central(std::vector<TimedOperation>& by_exit, Nanoseconds centre_ns) {
  constexpr std::size_t enough = 512;
  const auto centre = std::lower_bound(by_exit.begin(), by_exit.end(), centre_ns,
                                       [](const TimedOperation& o, Nanoseconds t) { return o.exit_ns < t; });
  const Sample kept = sample_around(static_cast<std::size_t>(centre - by_exit.begin()), enough, by_exit.size());
  by_exit.erase(by_exit.begin() + static_cast<std::ptrdiff_t>(kept.end), by_exit.end());
  by_exit.erase(by_exit.begin(), by_exit.begin() + static_cast<std::ptrdiff_t>(kept.first));
}

/// Lanes with keys in [first, end). `is_fine`: on a clock good to a fraction of a microsecond, if all that its trace
/// rank did shows that.
std::vector<Lane> make_lanes(std::span<const SampledOperation> samples, const RoughClocks& clocks, std::uint64_t first,
                             std::uint64_t end, bool is_fine) {
  std::map<std::int32_t, FineClock> fine;
  if (is_fine) fine = fine_clocks_of_ranks(samples, clocks);
  std::map<std::pair<std::int32_t, std::uint64_t>, Lane> lanes;
  std::map<std::pair<std::int32_t, std::uint64_t>, std::int64_t> point_to_point;
  std::set<std::pair<std::int32_t, std::uint64_t>> named_kinds;
  for (const SampledOperation& operation : samples) {
    if (names_communicator(operation.lane)) named_kinds.emplace(operation.trace_rank, kind_of(operation.symbol));
  }
  for (const SampledOperation& operation : samples) {
    if (operation.lane < first || operation.lane >= end) continue;
    const std::pair key(operation.trace_rank, operation.lane);
    Lane& lane = lanes[key];
    lane.trace_rank = operation.trace_rank;
    lane.lane = operation.lane;
    lane.component = clocks.component_of(operation.session);
    point_to_point[key] += operation.operation == Operation::send_recv ? 1 : -1;
    if (!may_end_together(operation.operation)) continue;
    // Calls name the communicators of this kind of operation here, so this is one of those; only which is not known.
    if (operation.is_orphan && named_kinds.contains({operation.trace_rank, kind_of(operation.symbol)})) {
      lane.is_named_elsewhere = true;
      continue;
    }
    lane.operation_of[operation.symbol] = operation.operation;
    const FineClock& clock = fine[operation.trace_rank];
    lane.exits[operation.symbol].push_back({clock.corrected(clocks.to_common(operation.session, operation.enter_ns)),
                                            clock.corrected(clocks.to_common(operation.session, operation.exit_ns))});
  }
  std::vector<Lane> result;
  for (auto& [key, lane] : lanes) {
    for (auto& [symbol, operations] : lane.exits) {
      std::sort(operations.begin(), operations.end(), [](const TimedOperation& a, const TimedOperation& b) {
        return std::tie(a.exit_ns, a.enter_ns) < std::tie(b.exit_ns, b.enter_ns);
      });
    }
    for (auto& [symbol, operations] : lane.exits) keep_central(operations, clocks.centre_ns());
    lane.point_to_point = point_to_point[key] > 0;
    result.push_back(std::move(lane));
  }
  return result;
}

/// Operations that all members leave within a moment.
bool ends_sharply(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter;
}

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

bool covers(const Lane& lane, std::uint64_t symbol, Nanoseconds exit_ns) {
  const auto found = lane.exits.find(symbol);
  return found != lane.exits.end() && found->second.front().exit_ns <= exit_ns &&
         exit_ns <= found->second.back().exit_ns;
}

bool ends_near(const Lane& lane, std::uint64_t symbol, Nanoseconds exit_ns, Nanoseconds tolerance_ns) {
  const auto found = lane.exits.find(symbol);
  if (found == lane.exits.end()) return false;
  const auto next = std::lower_bound(found->second.begin(), found->second.end(), exit_ns - tolerance_ns,
                                     [](const TimedOperation& o, Nanoseconds t) { return o.exit_ns < t; });
  return next != found->second.end() && next->exit_ns <= exit_ns + tolerance_ns;
}

/// Difference of the lane's nearest exit; NaN beyond the reach.
double nearest_exit(const Lane& lane, std::uint64_t symbol, Nanoseconds exit_ns, Nanoseconds reach_ns) {
  const auto found = lane.exits.find(symbol);
  Nanoseconds best_ns = reach_ns + 1;
  if (found != lane.exits.end()) {
    const auto next = std::lower_bound(found->second.begin(), found->second.end(), exit_ns,
                                       [](const TimedOperation& o, Nanoseconds t) { return o.exit_ns < t; });
    if (next != found->second.end()) best_ns = next->exit_ns - exit_ns;
    if (next != found->second.begin() && exit_ns - std::prev(next)->exit_ns < best_ns)
      best_ns = std::prev(next)->exit_ns - exit_ns;
  }
  return std::abs(best_ns) <= reach_ns ? static_cast<double>(best_ns) : std::nan("");
}

/// True where more of the operations that all members leave within a moment end on one of two lanes only, or at another
/// time on the other, than lost records explain: a communicator's operations end on all of its members.
bool disagree(const Lane& a, const Lane& b, Nanoseconds far_ns) {
  constexpr double most_lost = 0.02, least_apart = 0.04;
  for (const auto& [symbol, operations] : a.exits) {
    const auto other = b.exits.find(symbol);
    if (other == b.exits.end() || !ends_sharply(a.operation_of.at(symbol))) continue;
    const std::optional<ExitAgreement> agreement = exit_agreement(operations, other->second, far_ns);
    if (!agreement) continue;
    const auto covered = static_cast<double>(agreement->covered), apart = static_cast<double>(agreement->apart);
    const double lost = most_lost * covered;
    if (apart >= std::max(least_apart * covered, lost + 3 * std::sqrt(lost) + 1)) return true;
  }
  return false;
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
    if (!may_take_turns) part_companions(next_group);
    LaneRoles roles;
    if (!any && !has_evidence()) return roles;
    const std::set<std::size_t> taking_turns = may_take_turns ? groups_taking_turns() : groups_at_odds();
    std::map<std::size_t, std::size_t> size_of;
    for (const Lane& lane : lanes_) ++size_of[lane.group];
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      const Lane& lane = lanes_[l];
      const bool takes_turns = taking_turns.contains(lane.group);
      roles[{lane.trace_rank, lane.lane}] = {
          .key = takes_turns ? next_group++ : lane.group,
          .takes_turns = takes_turns || (size_of.at(lane.group) == 1 && !lane.is_named_elsewhere),
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

  /// When the lanes left what the first of them did, against its own exits; operations that all members leave at once.
  /// Without the trend of each lane, which is its clock's.
  ExitTable exits_of(std::span<const std::size_t> group) const {
    constexpr Nanoseconds reach_ns = 20'000;
    ExitTable table{group.size(), {}};
    std::vector<Nanoseconds> times;
    for (const auto& [symbol, operations] : lanes_[group.front()].exits) {
      if (!ends_sharply(lanes_[group.front()].operation_of.at(symbol))) continue;
      for (const TimedOperation& operation : operations) {
        times.push_back(operation.exit_ns);
        for (const std::size_t l : group)
          table.exits.push_back(nearest_exit(lanes_[l], symbol, operation.exit_ns, reach_ns));
      }
    }
    remove_trends(table, times);
    return table;
  }

  /// Communicators that a third one holds in step agree by chance, above all over few operations; but they do not leave
  /// as one.
  void part_companions(std::size_t& next_group) {
    constexpr std::size_t fewest_operations = 4, most_members = 128;
    for (auto& [group, left] : groups()) {
      while (left.size() > 2 && left.size() <= most_members) {
        const ExitTable table = exits_of(left);
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

  /// The operations of a lane that end with none of its group's, though those were captured at the time.
  Lane unexplained(std::size_t l, std::span<const std::size_t> group, Nanoseconds tolerance_ns) const {
    Lane rest = lanes_[l];
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

  /// Whether a lane disagrees with enough of its group to carry what they do not; of a large group a few are asked,
  /// those next to it first.
  bool disagrees_with_some(std::size_t l, std::span<const std::size_t> group) const {
    constexpr std::size_t most_asked = 16, one_in = 3;
    const auto own = static_cast<std::size_t>(std::find(group.begin(), group.end(), l) - group.begin());
    const std::size_t asked = std::min(group.size() - 1, most_asked);
    const Nanoseconds far_ns = std::max(10 * lanes_[l].best_spread_ns, sharp_ns);
    std::size_t disagreeing = 0;
    for (std::size_t next = 1; next <= asked; ++next)
      disagreeing += disagree(lanes_[l], lanes_[group[(own + next) % group.size()]], far_ns) ? 1 : 0;
    return disagreeing > 0 && one_in * disagreeing >= asked;
  }

  /// Whether exchanges, on a lane that carries more than those, end together with a lane outside of the group better
  /// than with one inside.
  bool meets_outsider(std::size_t l, std::span<const std::size_t> group) const {
    constexpr Nanoseconds times = 2;
    const Lane& lane = lanes_[l];
    if (lane.exits.size() < 2) return false;
    for (const auto& [symbol, operation] : lane.operation_of) {
      if (operation != Operation::send_recv) continue;
      Nanoseconds inside_ns = std::numeric_limits<Nanoseconds>::max(), outside_ns = inside_ns;
      for (std::size_t other = 0; other < lanes_.size(); ++other) {
        if (lanes_[other].trace_rank == lane.trace_rank || lanes_[other].component != lane.component) continue;
        const auto found = lanes_[other].exits.find(symbol);
        if (found == lanes_[other].exits.end()) continue;
        const std::optional<ExitAgreement> agreement = exit_agreement(lane.exits.at(symbol), found->second);
        if (!agreement || !ends_together(*agreement)) continue;
        Nanoseconds& best_ns = std::binary_search(group.begin(), group.end(), other) ? inside_ns : outside_ns;
        best_ns = std::min(best_ns, std::max(agreement->exit_spread_ns, least_spread_ns(operation)));
      }
      if (outside_ns < inside_ns / times) return true;
    }
    return false;
  }

  /// Groups of which a lane does what others do not.
  std::set<std::size_t> groups_at_odds() const {
    std::set<std::size_t> found;
    for (const auto& [group, members] : groups()) {
      const bool is_at_odds = std::any_of(members.begin(), members.end(),
                                          [&, m = &members](std::size_t l) { return disagrees_with_some(l, *m); });
      if (is_at_odds || (members.size() > 1 && meets_outsider(members.front(), members))) found.insert(group);
    }
    return found;
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
    // All ranks run one program: what carries the same kinds of operations elsewhere takes turns as well.
    std::set<std::vector<std::uint64_t>> programs;
    for (const Lane& lane : lanes_) {
      if (found.contains(lane.group)) programs.insert(symbols_of(lane));
    }
    for (const Lane& lane : lanes_) {
      if (programs.contains(symbols_of(lane))) found.insert(lane.group);
    }
    return found;
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
