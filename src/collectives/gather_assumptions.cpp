#include "collectives/gather_assumptions.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "collectives/exit_agreement.hpp"
#include "collectives/robust.hpp"

namespace nsys_explain::collectives {
namespace {

/// Members leave an all-gather up to this late, each by a habit of its own.
constexpr Nanoseconds reach_ns = 200'000;

/// Of operations, one of which ends nearest, the nearest within reach that was under way together with this one for so
/// long, of those that may be meant; nullptr: none.
template <typename MayBe>
const TurnOperation* nearest_together(const TurnOperation& own, const std::vector<TurnOperation>& others,
                                      std::size_t nearest, Nanoseconds together_ns, MayBe may_be) {
  const auto distance_ns = [&](std::size_t j) { return std::abs(others[j].exit_ns - own.exit_ns); };
  const auto is_possible = [&](std::size_t j) {
    return std::min(own.exit_ns, others[j].exit_ns) - std::max(own.enter_ns, others[j].enter_ns) >= together_ns &&
           may_be(others[j]);
  };
  const TurnOperation* best = nullptr;
  Nanoseconds best_ns = reach_ns + 1;
  for (std::size_t j = nearest + 1; j-- > 0 && distance_ns(j) < best_ns;) {
    if (is_possible(j)) best = &others[j], best_ns = distance_ns(j);
  }
  for (std::size_t j = nearest + 1; j < others.size() && distance_ns(j) < best_ns; ++j) {
    if (is_possible(j)) best = &others[j], best_ns = distance_ns(j);
  }
  return best;
}

/// Of operations, one of which ends nearest, the nearest that was under way together with this one for so long: at the
/// same place of the program, if there is one within reach, or anywhere; or that one if there is none. The next
/// operation of a lane often ends nearer than the one that it left early.
const TurnOperation& counterpart(const TurnOperation& own, const std::vector<TurnOperation>& others,
                                 std::size_t nearest, Nanoseconds together_ns) {
  const auto find = [&](auto may_be) { return nearest_together(own, others, nearest, together_ns, may_be); };
  const TurnOperation* found =
      own.place == 0 ? nullptr : find([&](const TurnOperation& its) { return its.place == own.place; });
  if (found == nullptr) found = find([](const TurnOperation&) { return true; });
  return found != nullptr ? *found : others[nearest];
}

/// Of each operation of a symbol on a lane: when the lanes of a set entered and left it, if it is theirs.
std::vector<Met> meetings(const std::vector<TurnLane>& lanes, std::size_t l, const LaneSet& set, std::uint64_t symbol,
                          Nanoseconds together_ns) {
  const std::vector<TurnOperation>& own = lanes[l].operations.at(symbol);
  std::vector<Met> met(own.size());
  for (std::size_t i = 0; i < met.size(); ++i) met[i].add(own[i]);
  for (const std::size_t member : set) {
    for (std::size_t i = 0; i < own.size(); ++i) met[i].captured += lanes[member].covers(own[i].exit_ns) ? 1 : 0;
    const auto other = lanes[member].operations.find(symbol);
    if (member == l || other == lanes[member].operations.end()) continue;
    for_each_nearest(own, other->second, 0, [&](std::size_t i, std::size_t j, Nanoseconds difference_ns) {
      if (std::abs(difference_ns) <= reach_ns) met[i].add(counterpart(own[i], other->second, j, together_ns));
    });
  }
  return met;
}

constexpr std::size_t fewest_told = 5;

/// Minus twice the log likelihood of exits of one lane, but for a constant: members leave soon after they could, seldom
/// much later, and never before. Of times from when they could; the usual one is the likeliest of some.
std::vector<double> surprises(const std::vector<double>& times_ns) {
  constexpr double clock_ns = 1'000;
  constexpr std::size_t asked = 10;
  std::vector<double> sorted = times_ns;
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t tenth = 0; tenth < asked && !sorted.empty(); ++tenth) {
    const double usual_ns = sorted[(2 * tenth + 1) * sorted.size() / (2 * asked)];
    std::vector<double> found;
    for (const double time_ns : times_ns) found.push_back(4 * std::log1p(std::abs(time_ns - usual_ns) / clock_ns));
    const double sum = std::accumulate(found.begin(), found.end(), 0.0);
    if (sum >= least) continue;
    least = sum;
    best = std::move(found);
  }
  return best;
}

/// Twice the log of the likelihood ratio that differences of log likelihoods, only one in `alike` of which tells
/// something new, are not 0 on average, or what they say themselves if that is less; positive if they are more. The
/// former is what Vuong compares models by that may both be wrong (Econometrica 57, 1989).
double evidence_of_sum(const std::vector<double>& values, double alike) {
  const auto count = static_cast<double>(values.size());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0), mean = sum / count;
  const double squares = std::accumulate(values.begin(), values.end(), 0.0, [&](double all, double value) {
    return all + (value - mean) * (value - mean);
  });
  if (sum == 0) return 0;
  const double consistent = count / alike * std::log1p(sum * sum / (count * squares));
  return std::copysign(std::min(consistent, std::abs(sum) / alike), sum);
}

/// From when the last one came to when the first one left, if operations are of some communicators or of others; of
/// those known for both, lane after lane.
struct Times {
  std::vector<std::vector<double>> own_ns, its_ns;
  std::size_t members = 1;  ///< that tell of the same operations

  std::size_t count() const {
    return std::accumulate(own_ns.begin(), own_ns.end(), std::size_t{0},
                           [](std::size_t sum, const auto& of_lane) { return sum + of_lane.size(); });
  }
};

/// Those who leave are the same, so that what differs is whom they waited for, as each member sees it. Of many
/// operations some tell as well.
Times times_of(const Gathers& gathers, const Assumption& assumed, const Assumption& other) {
  constexpr std::size_t enough = 200'000;
  const std::size_t all = std::accumulate(gathers.begin(), gathers.end(), std::size_t{0},
                                          [](std::size_t sum, const auto& entry) { return sum + entry.second.size(); });
  const std::size_t every = all / enough + 1;
  Times times;
  for (const auto& [l, operations] : gathers) {
    const auto set = assumed.sets.find(l);
    if (set == assumed.sets.end() || !other.sets.contains(l)) continue;
    times.members = std::max(times.members, set->second.size());
    std::vector<double>& own_ns = times.own_ns.emplace_back();
    std::vector<double>& its_ns = times.its_ns.emplace_back();
    for (std::size_t k = 0; k < operations.size(); k += every) {
      const std::size_t i = operations[k];
      if (!assumed.is_complete(l, i) || !other.is_complete(l, i)) continue;
      const Nanoseconds first_exit_ns = assumed.met.at(l)[i].first_exit_ns;
      own_ns.push_back(static_cast<double>(first_exit_ns - assumed.met.at(l)[i].last_enter_ns));
      its_ns.push_back(static_cast<double>(first_exit_ns - other.met.at(l)[i].last_enter_ns));
    }
  }
  return times;
}

std::vector<double> joined(const std::vector<std::vector<double>>& of_lanes) {
  std::vector<double> all;
  for (const std::vector<double>& of_lane : of_lanes) all.insert(all.end(), of_lane.begin(), of_lane.end());
  return all;
}

/// Twice the log of how much better one explains the times than the other, if they are normal.
double evidence_of_spread(const Times& times) {
  constexpr double least_deviation_ns = 300;
  const std::vector<double> own = centred(joined(times.own_ns)), its = centred(joined(times.its_ns));
  const double deviation = std::min(deviation_of(own, least_deviation_ns), deviation_of(its, least_deviation_ns));
  return (misfit(its, deviation) - misfit(own, deviation)) / static_cast<double>(times.members);
}

/// The same if most members leave soon after they could, few much later, and none before, each lane by itself.
double evidence_of_haste(const Times& times) {
  std::vector<double> better;
  for (std::size_t k = 0; k < times.own_ns.size(); ++k) {
    const std::vector<double> own = surprises(times.own_ns[k]), its = surprises(times.its_ns[k]);
    std::transform(its.begin(), its.end(), own.begin(), std::back_inserter(better), std::minus<>());
  }
  return evidence_of_sum(better, static_cast<double>(times.members));
}

/// How much better one assumption explains when members left than another one does: what tells more, less what speaks
/// against it. Nothing where few are known for both.
std::optional<double> evidence(const Gathers& gathers, const Assumption& assumed, const Assumption& other) {
  const Times times = times_of(gathers, assumed, other);
  if (times.count() < fewest_told * times.members) return std::nullopt;
  const double spread = evidence_of_spread(times), haste = evidence_of_haste(times);
  if ((spread > 0) != (haste > 0)) return spread + haste;
  return std::abs(spread) > std::abs(haste) ? spread : haste;
}

/// Whether the communicators of one assumption are parts of those of another one.
bool are_parts(const Assumption& parts, const Assumption& wholes) {
  return std::all_of(parts.sets.begin(), parts.sets.end(), [&](const auto& of_lane) {
    const auto whole = wholes.sets.find(of_lane.first);
    return whole == wholes.sets.end() || is_subset(of_lane.second, whole->second);
  });
}

/// Whether half of the lanes have a communicator of the kind, or more: what a program does at a place, all do in
/// theirs.
bool is_held_by_many(const Gathers& gathers, const Assumption& assumed) {
  const auto holding = std::count_if(gathers.begin(), gathers.end(),
                                     [&](const auto& of_lane) { return assumed.sets.contains(of_lane.first); });
  return 2 * static_cast<std::size_t>(holding) >= gathers.size();
}

struct Candidate {
  const Assumption* assumed = nullptr;
  double width_ns = 0;  ///< of what operations take then

  /// Whether the other one leaves so many times less unexplained. More members leave less apart: that communicators are
  /// parts of others is not ruled out so.
  bool is_worse_than(const Candidate& other, double times) const {
    return width_ns > times * other.width_ns && (assumed->kind == nullptr || !are_parts(*assumed, *other.assumed));
  }
};

/// Whether members left before the last one was there, by more than clocks are off.
bool is_impossible(const Range& transfer) {
  constexpr Nanoseconds clocks_ns = 10'000;
  return transfer.middle_ns() < -clocks_ns;
}

/// Assumptions but for those that explain far worse than another one when their members could leave.
std::vector<Candidate> possible(const Gathers& gathers, const std::vector<Assumption>& all) {
  std::vector<Candidate> candidates;
  for (const Assumption& assumed : all) {
    if (!is_held_by_many(gathers, assumed)) continue;
    const std::optional<Range> range = transfers(gathers, assumed);
    if (range && !is_impossible(*range)) candidates.push_back({&assumed, static_cast<double>(range->width_ns())});
  }
  std::vector<Candidate> result;
  for (const Candidate& candidate : candidates) {
    const bool is_ruled_out = std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& other) {
      return candidate.is_worse_than(other, far_worse);
    });
    if (!is_ruled_out) result.push_back(candidate);
  }
  return result;
}

/// By how much one assumption explains better than another one, as both see it: where each explains its own exits
/// better, little tells.
double margin(const Gathers& gathers, const Assumption& assumed, const Assumption& other) {
  constexpr double times = 3;
  const double own = evidence(gathers, assumed, other).value_or(0), its = evidence(gathers, other, assumed).value_or(0);
  return own - (its > 0 ? times : 1) * its;
}

/// Whether there are too few operations to tell whether communicators of a known kind did them.
bool cannot_judge(const Gathers& gathers, const Assumption& assumed) {
  std::size_t operations = 0;
  for (const auto& [l, of_lane] : gathers) {
    if (!assumed.speaks_for_all(l, gathers)) continue;
    operations += static_cast<std::size_t>(
        std::count_if(of_lane.begin(), of_lane.end(), [&, l = l](std::size_t i) { return assumed.is_captured(l, i); }));
  }
  return assumed.kind != nullptr && operations < fewest_told;
}

}  // namespace

Nanoseconds least_transfer(const std::vector<TurnLane>& lanes, std::uint64_t symbol) {
  constexpr std::size_t one_in = 100;
  constexpr double part = 0.75;
  std::vector<Nanoseconds> durations_ns;
  for (const TurnLane& lane : lanes) {
    const auto found = lane.operations.find(symbol);
    if (found == lane.operations.end()) continue;
    for (const TurnOperation& operation : found->second) durations_ns.push_back(operation.exit_ns - operation.enter_ns);
  }
  if (durations_ns.empty()) return 0;
  const auto nth = durations_ns.begin() + static_cast<std::ptrdiff_t>(durations_ns.size() / one_in);
  std::nth_element(durations_ns.begin(), nth, durations_ns.end());
  return static_cast<Nanoseconds>(part * static_cast<double>(*nth));
}

bool is_met_by_most(const std::vector<TurnLane>& lanes, std::size_t l, std::uint64_t symbol,
                    const TurnOperation& operation, Nanoseconds together_ns) {
  constexpr Nanoseconds far_nearer = 4;  // who leaves late often leaves nearer to what it did before or after
  const LaneSet& set = *operation.claimed;
  const auto is_claimed = [&](const TurnOperation& its) { return its.claimed != nullptr && *its.claimed == set; };
  const auto counterpart_of = [&](const TurnOperation& own, std::size_t lane, auto may_be) -> const TurnOperation* {
    const auto others = lanes[lane].operations.find(symbol);
    if (others == lanes[lane].operations.end()) return nullptr;
    const auto nearest = &nearest_exit(others->second, own.exit_ns) - others->second.data();
    return nearest_together(own, others->second, static_cast<std::size_t>(nearest), together_ns, may_be);
  };
  const auto meets = [&](std::size_t member) {
    const TurnOperation* its = counterpart_of(operation, member, is_claimed);
    if (its == nullptr) return false;
    const auto may_be = [&](const TurnOperation& own) { return own.claimed == nullptr || is_claimed(own); };
    const TurnOperation* nearest = counterpart_of(*its, l, may_be);
    const auto distance_ns = [&](const TurnOperation& own) { return std::abs(own.exit_ns - its->exit_ns); };
    // It may be the one before, and the others have waited for the next one, whose record is lost.
    const bool may_be_another = operation.is_placed_by_others || its->is_placed_by_others;
    if (may_be_another && distance_ns(operation) >= together_ns) return false;
    return far_nearer * distance_ns(*nearest) >= distance_ns(operation);
  };
  std::size_t captured = 0, meeting = 0;
  for (const std::size_t member : set) {
    if (member == l || !lanes[member].covers(operation.exit_ns)) continue;
    ++captured;
    meeting += meets(member) ? 1 : 0;
  }
  return 2 * meeting >= captured;
}

bool Assumption::speaks_for_all(std::size_t l, const Gathers& asked) const {
  const auto found = sets.find(l);
  if (found == sets.end()) return false;
  const LaneSet& set = found->second;
  const auto operations = [&](std::size_t member) {
    const auto of_member = asked.find(member);
    return of_member == asked.end() || !sets.contains(member) ? 0 : of_member->second.size();
  };
  return *std::max_element(set.begin(), set.end(),
                           [&](std::size_t a, std::size_t b) { return operations(a) < operations(b); }) == l;
}

std::vector<Assumption> assumptions_of(const std::vector<TurnLane>& lanes, std::uint64_t symbol,
                                       const Families& families) {
  std::vector<Assumption> result;
  for (const auto& [kind, family] : families) {
    Assumption& of_kind = result.emplace_back();
    of_kind.kind = &family;
    for (const auto& [l, set] : family) of_kind.sets[l] = *set;
  }
  Assumption nobody, all;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    nobody.sets[l] = {l};
    LaneSet& everybody = all.sets[l] = lanes[l].neighbours;
    everybody.push_back(l);
    std::sort(everybody.begin(), everybody.end());
  }
  for (Assumption* always : {&nobody, &all}) {
    const bool is_known = std::any_of(result.begin(), result.end(),
                                      [&](const Assumption& assumed) { return assumed.sets == always->sets; });
    if (!is_known) result.push_back(std::move(*always));
  }
  const Nanoseconds together_ns = least_transfer(lanes, symbol);
  for (Assumption& assumed : result) {
    for (const auto& [l, set] : assumed.sets) {
      if (lanes[l].operations.contains(symbol)) assumed.met[l] = meetings(lanes, l, set, symbol, together_ns);
    }
  }
  return result;
}

std::optional<Range> transfers(const Gathers& gathers, const Assumption& assumed) {
  std::vector<Nanoseconds> times;
  for (const auto& [l, operations] : gathers) {
    if (!assumed.speaks_for_all(l, gathers)) continue;
    for (const std::size_t i : operations) {
      const Met& met = assumed.met.at(l)[i];
      if (assumed.is_complete(l, i)) times.push_back(met.first_exit_ns - met.last_enter_ns);
    }
  }
  if (times.size() < fewest_told) return std::nullopt;
  std::sort(times.begin(), times.end());
  return Range{times[times.size() / 5], times[times.size() * 4 / 5]};
}

const Assumption* explaining(const Gathers& gathers, const std::vector<Assumption>& all, double least_evidence) {
  if (std::any_of(all.begin(), all.end(), [&](const Assumption& assumed) {
        return is_held_by_many(gathers, assumed) && cannot_judge(gathers, assumed);
      }))
    return nullptr;
  constexpr double hardly = 1.1;
  const std::vector<Candidate> candidates = possible(gathers, all);
  const auto explains = [&](const Candidate& candidate) {
    return std::all_of(candidates.begin(), candidates.end(), [&](const Candidate& other) {
      if (other.assumed == candidate.assumed) return true;
      return !candidate.is_worse_than(other, hardly) &&
             margin(gathers, *candidate.assumed, *other.assumed) > least_evidence;
    });
  };
  const auto best = std::find_if(candidates.begin(), candidates.end(), explains);
  return best == candidates.end() || best->assumed->kind == nullptr ? nullptr : best->assumed;
}

}  // namespace nsys_explain::collectives
