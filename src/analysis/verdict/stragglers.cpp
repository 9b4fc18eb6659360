#include "analysis/verdict/stragglers.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/statistics/significance.hpp"
#include "analysis/verdict/slow_ranks.hpp"
#include "analysis/verdict/suspects.hpp"
#include "analysis/verdict/unseen_waits.hpp"
#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {
namespace {

std::string describe_balance(const StageBalance& stage) {
  const auto ms = [](Nanoseconds time_ns) { return static_cast<double>(time_ns) * 1e-6; };
  return fmt::format(
      "in every span of steps the stage computes {:.3f} ms, the median of the other stages {:.3f} ms: it runs {:.2f} "
      "times as much of the kernels that they run, too (of equal name, grid and block); what no other stage runs "
      "({:.3f} ms), such as embedding or loss, is uneven by design and not held against it (table stage_balance)",
      ms(stage.kernel_ns), ms(stage.others_kernel_ns),
      static_cast<double>(stage.shared_ns) / static_cast<double>(stage.others_shared_ns),
      ms(stage.kernel_ns - stage.shared_ns));
}

/// What the delays of a place cost.
Nanoseconds cost_of(const Place& place, std::span<const RankSummary> ranks) {
  Nanoseconds cost = 0;
  for (const std::size_t r : place.ranks) cost += ranks[r].delay_cost_ns;
  return cost;
}

/// A cost as a share of all trace ranks' window time.
double share_of(Nanoseconds cost, std::span<const RankSummary> ranks) {
  Nanoseconds windows = 0;
  for (const RankSummary& rank : ranks) windows += rank.budget.window_ns;
  return windows > 0 ? static_cast<double>(cost) / static_cast<double>(windows) : 0;
}

/// All but evidence of its being no chance, pattern and cause.
Straggler describe(const Place& place, double p_value, std::span<const RankSummary> ranks, const Totals& totals) {
  Straggler straggler;
  straggler.level = place.level;
  straggler.place = place.name;
  straggler.also = place.also;
  straggler.p_value = p_value;
  straggler.cost_share = share_of(cost_of(place, ranks), ranks);
  const std::size_t worst =
      *std::max_element(place.ranks.begin(), place.ranks.end(),
                        [&](std::size_t a, std::size_t b) { return ranks[a].delay_cost_ns < ranks[b].delay_cost_ns; });
  straggler.trace_rank = ranks[worst].trace_rank;
  std::int64_t last = 0, resolved = 0, expected_ppb = 0, own_last = 0;
  Nanoseconds caused_lateness_ns = 0;
  RankSpan span;
  for (const std::size_t r : place.ranks) {
    const RankTotals& t = totals.ranks[r];
    straggler.trace_ranks.push_back(ranks[r].trace_rank);
    straggler.own_lateness_ns += t.own_lateness_ns;
    straggler.caused_wait_ns += t.caused_wait_ns;
    straggler.delay_cost_ns += ranks[r].delay_cost_ns;
    last += t.last_arrivals;
    resolved += t.resolved;
    expected_ppb += t.expected_last_ppb;
    own_last += t.own_last_arrivals;
    caused_lateness_ns += t.caused_lateness_ns;
    span.first_ns = std::min(span.first_ns, totals.spans[r].first_ns);
    span.last_ns = std::max(span.last_ns, totals.spans[r].last_ns);
  }
  straggler.last_share = resolved > 0 ? static_cast<double>(last) / static_cast<double>(resolved) : 0;
  straggler.first_ns = own_last > 0 ? span.first_ns : no_time;
  straggler.last_ns = own_last > 0 ? span.last_ns : no_time;
  const double by_chance = static_cast<double>(expected_ppb) * 1e-9;
  straggler.evidence.push_back(
      place.ranks.size() == 1
          ? fmt::format("last in {} of {} collectives whose last arriver the clock resolves; {:.1f} would be chance",
                        last, resolved, by_chance)
          : fmt::format("one of them is last in {} collectives whose last arriver the clock resolves; {:.1f} would be "
                        "chance",
                        last, by_chance));
  if (own_last > 0) {
    straggler.evidence.push_back(
        fmt::format("in {} of them at least half of its lateness was its own work, {:.3f} ms on average", own_last,
                    static_cast<double>(caused_lateness_ns) * 1e-6 / static_cast<double>(own_last)));
  }
  return straggler;
}

/// What rules chance out.
void add_proof(const Place& place, const JobDelays& delays, Straggler& straggler) {
  const double p_value = straggler.p_value;
  if (slow_by_kernels(place, delays) == p_value) {
    double ratio = 0;
    for (const std::size_t r : place.ranks) ratio += delays.speed[r].ratio / static_cast<double>(place.ranks.size());
    straggler.evidence.push_back(
        fmt::format("kernels of equal name, grid and block take {:.3f} times as long as on its peers (tables gpu_speed "
                    "and kernel_peers); chance of this by luck: {}",
                    ratio, p_value < 1e-16 ? "less than 1e-16" : fmt::format("{:.1e}", p_value)));
    return;
  }
  if (const StageBalance* stage = find_overfull_stage(delays, place.ranks)) {
    straggler.evidence.push_back(describe_balance(*stage));
    if (stage->p_value == p_value) return;
  }
  straggler.evidence.push_back(fmt::format("chance of this by luck: at most {:.1e} ({} {})", p_value, delays.bins,
                                           !delays.by_step               ? "spans of time"
                                           : delays.bins == delays.steps ? "steps"
                                                                         : "spans of whole steps"));
}

/// Who of the ranks is a straggler, or of one.
std::vector<std::size_t> ranks_of(std::span<const Straggler> named, std::span<const RankSummary> ranks) {
  std::vector<std::size_t> found;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto is_of = [&](const Straggler& straggler) {
      return std::binary_search(straggler.trace_ranks.begin(), straggler.trace_ranks.end(), ranks[r].trace_rank);
    };
    if (std::any_of(named.begin(), named.end(), is_of)) found.push_back(r);
  }
  return found;
}

/// A slow trace rank with what its transfers cost: its own delays, and of those of all that are late by them, but for
/// culprits themselves, the part that transfers have in their lateness.
Straggler describe_slow_rank(const LateTogether& together, std::span<const Straggler> culprits,
                             std::span<const RankSummary> ranks, const Totals& totals, const JobDelays& delays) {
  const std::vector<std::size_t>& late = together.late.ranks;
  Straggler culprit = describe({Level::gpu, "", {late.front()}, {}}, together.p_value, ranks, totals);
  const std::vector<std::size_t> named = ranks_of(culprits, ranks);
  std::vector<std::int32_t> others;
  for (const std::size_t r : std::span(late).subspan(1)) {
    if (std::binary_search(named.begin(), named.end(), r)) continue;
    others.push_back(ranks[r].trace_rank);
    const Nanoseconds transfers_ns = delays.slow_transfers_of(r), excess_ns = delays.excess_of(r);
    // Who is early but for the transfers is late by nothing else.
    const double part =
        transfers_ns < excess_ns ? static_cast<double>(transfers_ns) / static_cast<double>(excess_ns) : 1.0;
    culprit.delay_cost_ns += static_cast<Nanoseconds>(part * static_cast<double>(ranks[r].delay_cost_ns));
  }
  culprit.cost_share = share_of(culprit.delay_cost_ns, ranks);
  if (!others.empty())
    culprit.evidence.push_back(fmt::format(
        "trace ranks {} exchange with it, and are late with it by the same transfers: what these cost is in its own",
        fmt::join(others, ", ")));
  return culprit;
}

/// The culprits of these places: each place itself, but one trace rank for all that are late by its slow transfers.
/// `delays`: without those that are proven, which `all_delays` has.
std::vector<Straggler> describe_culprits(std::span<const std::size_t> needed, std::span<const Place> places,
                                         std::span<const double> p_values, SlowRanks slow_ranks,
                                         std::span<const RankSummary> ranks, const Totals& totals,
                                         const JobDelays& delays, const JobDelays& all_delays) {
  std::vector<Straggler> culprits;
  for (const std::size_t p : needed) {
    if (const SlowRank* slow = slow_rank_behind(places[p], delays)) {
      const auto entry = slow_ranks.try_emplace(slow, LateTogether{late_with(*slow, delays), 1}).first;
      entry->second.p_value = std::min(entry->second.p_value, p_values[p]);
      continue;
    }
    culprits.push_back(describe(places[p], p_values[p], ranks, totals));
    add_proof(places[p], delays, culprits.back());
  }
  std::vector<Straggler> slow_culprits;
  for (const auto& [slow, together] : slow_ranks) {
    slow_culprits.push_back(describe_slow_rank(together, culprits, ranks, totals, all_delays));
    add_proof({Level::gpu, "", {slow->rank}, {}}, delays, slow_culprits.back());
  }
  std::move(slow_culprits.begin(), slow_culprits.end(), std::back_inserter(culprits));
  return culprits;
}

bool share_trace_ranks(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
}

/// Nobody that the stragglers cover already.
bool is_new(const SuspectedStraggler& suspect, std::span<const Straggler> named) {
  return std::none_of(named.begin(), named.end(), [&](const Straggler& straggler) {
    return share_trace_ranks(straggler.trace_ranks, suspect.late.trace_ranks);
  });
}

/// Places that steps enough to tell would probably prove: costly, and none of their trace ranks named yet.
std::vector<SuspectedStraggler> find_unproven(std::span<const RankSummary> ranks, const Totals& totals,
                                              std::span<const Place> places, const Probabilities& probabilities,
                                              std::span<const Straggler> named, const JobDelays& delays,
                                              const StragglerCriteria& criteria) {
  std::vector<SuspectedStraggler> unproven;
  std::set<const SlowRank*> slow_ranks;  // behind one or several places
  for (const std::size_t p : explaining_places(places, probabilities.likely, delays)) {
    SuspectedStraggler one;
    const SlowRank* const slow = slow_rank_behind(places[p], delays);
    if (slow != nullptr && !slow_ranks.insert(slow).second) continue;
    one.late = slow != nullptr ? describe_slow_rank({late_with(*slow, delays), probabilities.likely[p]}, named, ranks,
                                                    totals, delays)
                               : describe(places[p], probabilities.likely[p], ranks, totals);
    one.verdict_p_value = probabilities.limit[p];
    const double cost_share = slow != nullptr ? one.late.cost_share : share_of(probabilities.cost_ns[p], ranks);
    if (!is_new(one, named) || cost_share < criteria.suspect_cost_share) continue;
    // The logarithm of the bound is a sum over independent bins, each of equally many steps.
    one.steps = static_cast<std::int64_t>(delays.steps);
    one.steps_needed = static_cast<std::int64_t>(
        std::ceil(static_cast<double>(delays.steps) * std::log(one.verdict_p_value) / std::log(one.late.p_value)));
    unproven.push_back(std::move(one));
  }
  std::stable_sort(unproven.begin(), unproven.end(), [](const SuspectedStraggler& a, const SuspectedStraggler& b) {
    return a.late.cost_share > b.late.cost_share;
  });
  return unproven;
}

/// The stragglers as what hides others.
struct Shadow {
  std::vector<std::size_t> ranks;        ///< of the stragglers, ascending
  std::vector<Nanoseconds> lateness_ns;  ///< of the latest of them, by bin
  double waiting = 0;                    ///< of all ranks together, per time that the latest of them is late
};

/// Of all ranks together, per time that the latest is late.
double waiting_per_lateness(Nanoseconds cost_ns, std::span<const Nanoseconds> lateness_ns, std::size_t ranks) {
  const double lateness = std::accumulate(lateness_ns.begin(), lateness_ns.end(), 0.0);
  return lateness > 0 ? std::min(static_cast<double>(cost_ns) / lateness, static_cast<double>(ranks - 1)) : 0;
}

Shadow shadow_of(std::span<const Straggler> named, std::span<const RankSummary> ranks, const JobDelays& delays) {
  Shadow shadow;
  shadow.ranks = ranks_of(named, ranks);
  shadow.lateness_ns = delays.greatest_excess(shadow.ranks);
  Nanoseconds cost_ns = 0;
  for (const Straggler& straggler : named) cost_ns += straggler.delay_cost_ns;
  shadow.waiting = waiting_per_lateness(cost_ns, shadow.lateness_ns, ranks.size());
  return shadow;
}

/// All ranks but these, ascending.
std::vector<std::size_t> ranks_but(std::span<const std::size_t> these, std::span<const std::size_t> nor_those,
                                   std::size_t count) {
  std::vector<std::size_t> others;
  for (std::size_t r = 0; r < count; ++r)
    if (!std::binary_search(these.begin(), these.end(), r) &&
        !std::binary_search(nor_those.begin(), nor_those.end(), r))
      others.push_back(r);
  return others;
}

/// What most ranks take longer in a bin, by bin: without delays that hit few of them.
std::vector<Nanoseconds> usual_excess(std::span<const std::size_t> ranks, const JobDelays& delays) {
  std::vector<Nanoseconds> usual(delays.bins, 0), of_bin;
  for (std::size_t b = 0; b < delays.bins; ++b) {
    of_bin.clear();
    for (const std::size_t r : ranks)
      of_bin.push_back(std::max<Nanoseconds>(0, delays.excess_work_ns[r * delays.bins + b]));
    if (!of_bin.empty()) usual[b] = lower_median(of_bin);
  }
  return usual;
}

/// What a place costs once others are mended: GPU time, and its share of what is left then.
struct HiddenCost {
  Nanoseconds time_ns = 0;
  double share = 0;
};

/// `behind_ns`: what the place is behind everybody else, over the run; `mended_ns`: by how much the latest is less late
/// once others are mended; both cost `waiting` per time.
HiddenCost cost_once_mended(double waiting, Nanoseconds behind_ns, Nanoseconds mended_ns,
                            std::span<const RankSummary> ranks) {
  double windows = 0;
  for (const RankSummary& rank : ranks) windows += static_cast<double>(rank.budget.window_ns);
  // Once mended, they hold nobody up, themselves neither: everybody is done earlier by the same.
  const auto count = static_cast<double>(ranks.size());
  const double left = windows - count / (count - 1) * waiting * static_cast<double>(mended_ns);
  if (left <= 0) return {};
  const double cost = std::min(left, waiting * static_cast<double>(behind_ns));
  return {static_cast<Nanoseconds>(cost), cost / left};
}

/// The cost of a place that mostly takes longer where a straggler takes longer still, once the stragglers are mended:
/// what it is behind everybody else, at the rate at which the stragglers' lateness costs now. 0 for other places.
HiddenCost cost_behind_stragglers(const Place& place, const Shadow& shadow, std::span<const RankSummary> ranks,
                                  const JobDelays& delays) {
  const std::vector<Nanoseconds> of_place = delays.greatest_excess(place.ranks);
  const std::vector<Nanoseconds> of_others = delays.greatest_excess(ranks_but(place.ranks, shadow.ranks, ranks.size()));
  Nanoseconds all = 0, covered = 0, behind = 0, mended = 0;
  for (std::size_t b = 0; b < delays.bins; ++b) {
    all += of_place[b];
    covered += std::min(of_place[b], shadow.lateness_ns[b]);
    behind += std::max<Nanoseconds>(0, of_place[b] - of_others[b]);
    mended += std::max<Nanoseconds>(0, shadow.lateness_ns[b] - std::max(of_place[b], of_others[b]));
  }
  return 2 * covered < all ? HiddenCost{} : cost_once_mended(shadow.waiting, behind, mended, ranks);
}

/// What a place takes longer than is usual for others in a bin, by bin, but never more than what it typically does
/// where it is longer: delays that go round hit it, too, and are not what lasts.
std::vector<Nanoseconds> lasting_excess(const Place& place, std::span<const Nanoseconds> usual_ns,
                                        const JobDelays& delays) {
  std::vector<Nanoseconds> lasting = delays.greatest_excess(place.ranks), longer;
  for (std::size_t b = 0; b < delays.bins; ++b) {
    lasting[b] = std::max<Nanoseconds>(0, lasting[b] - usual_ns[b]);
    if (lasting[b] > 0) longer.push_back(lasting[b]);
  }
  const Nanoseconds limit = longer.empty() ? 0 : lower_median(longer);
  for (Nanoseconds& of_bin : lasting) of_bin = std::min(of_bin, limit);
  return lasting;
}

/// Likewise behind delays that go round: now this one takes longer still, now that. 0 where others do not wait for the
/// place when it is the latest.
HiddenCost cost_behind_delays_that_go_round(const Place& place, std::span<const RankSummary> ranks,
                                            const JobDelays& delays) {
  const std::vector<bool> bear = bear_costs(delays.cost_ns, delays.excess_work_ns, ranks.size(), delays.bins);
  if (std::none_of(place.ranks.begin(), place.ranks.end(), [&](std::size_t r) { return bear[r]; })) return {};
  const std::vector<std::size_t> others = ranks_but(place.ranks, {}, ranks.size());
  const std::vector<Nanoseconds> usual_ns = usual_excess(others, delays);
  const std::vector<Nanoseconds> lasting_ns = lasting_excess(place, usual_ns, delays);
  const std::vector<Nanoseconds> of_place = delays.greatest_excess(place.ranks);
  const std::vector<Nanoseconds> of_others = delays.greatest_excess(others);
  std::vector<Nanoseconds> latest_ns;
  Nanoseconds cost_ns = 0, covered = 0, behind = 0, mended = 0;
  for (const RankSummary& rank : ranks) cost_ns += rank.delay_cost_ns;
  for (std::size_t b = 0; b < delays.bins; ++b) {
    latest_ns.push_back(std::max(of_place[b], of_others[b]));
    behind += lasting_ns[b];
    covered += std::min(lasting_ns[b], std::max<Nanoseconds>(0, of_others[b] - usual_ns[b]));
    mended += std::max<Nanoseconds>(0, latest_ns[b] - usual_ns[b] - lasting_ns[b]);
  }
  const double waiting = waiting_per_lateness(cost_ns, latest_ns, ranks.size());
  return 2 * covered < behind ? HiddenCost{} : cost_once_mended(waiting, behind, mended, ranks);
}

/// Places that take longer than their likes beyond chance, though nobody waits for them behind the stragglers, or
/// behind delays that go round.
std::vector<SuspectedStraggler> find_hidden(std::span<const RankSummary> ranks, const Totals& totals,
                                            std::span<const Place> places, const Probabilities& probabilities,
                                            std::span<const Straggler> named, const JobDelays& delays,
                                            const StragglerCriteria& criteria) {
  const Shadow shadow = shadow_of(named, ranks, delays);
  std::vector<SuspectedStraggler> hidden;
  for (const std::size_t p : explaining_places(places, probabilities.longer, delays)) {
    if (slow_rank_behind(places[p], delays) != nullptr) continue;
    SuspectedStraggler one;
    one.late = describe(places[p], probabilities.longer[p], ranks, totals);
    one.late.first_ns = one.late.last_ns = no_time;
    one.doubt = Doubt::hidden;
    one.verdict_p_value = probabilities.limit[p];
    one.steps = static_cast<std::int64_t>(delays.steps);
    HiddenCost cost = cost_behind_stragglers(places[p], shadow, ranks, delays);
    if (cost.share >= criteria.suspect_cost_share) {
      for (const std::size_t r : shadow.ranks) one.behind.push_back(ranks[r].trace_rank);
    } else {
      cost = cost_behind_delays_that_go_round(places[p], ranks, delays);
    }
    one.hidden_cost_share = cost.share;
    one.estimated_cost_ns = cost.time_ns;
    if (!is_new(one, named) || one.hidden_cost_share < criteria.suspect_cost_share) continue;
    hidden.push_back(std::move(one));
  }
  std::stable_sort(hidden.begin(), hidden.end(), [](const SuspectedStraggler& a, const SuspectedStraggler& b) {
    return a.hidden_cost_share > b.hidden_cost_share;
  });
  return hidden;
}

/// Places that take longer than their likes beyond chance, while trace ranks whose clocks are not related to theirs
/// communicate as much longer: these wait for them, as far as can be told.
std::vector<SuspectedStraggler> find_unseen(std::span<const RankSummary> ranks, const Totals& totals,
                                            std::span<const Place> places, const Probabilities& probabilities,
                                            std::span<const Straggler> named, const JobDelays& delays,
                                            const StragglerCriteria& criteria) {
  std::vector<double> p_values;
  for (std::size_t p = 0; p < places.size(); ++p)
    p_values.push_back(std::min(probabilities.longer[p], probabilities.proven[p]));
  std::vector<SuspectedStraggler> unseen;
  for (const std::size_t p : explaining_places(places, p_values, delays)) {
    if (slow_rank_behind(places[p], delays) != nullptr) continue;
    const UnseenWaits waits = estimate_unseen_waits(places[p], ranks, delays);
    SuspectedStraggler one;
    one.late = describe(places[p], p_values[p], ranks, totals);
    one.late.first_ns = one.late.last_ns = no_time;
    one.late.evidence = {describe_waits(waits)};  // who is last among those whose clocks are related says little here
    one.doubt = Doubt::unseen;
    one.verdict_p_value = probabilities.limit[p];
    one.steps = static_cast<std::int64_t>(delays.steps);
    one.unseen_cost_share = share_of(waits.cost_ns, ranks);
    one.estimated_cost_ns = waits.cost_ns;
    if (!is_new(one, named) || one.unseen_cost_share < criteria.suspect_cost_share) continue;
    unseen.push_back(std::move(one));
  }
  std::stable_sort(unseen.begin(), unseen.end(), [](const SuspectedStraggler& a, const SuspectedStraggler& b) {
    return a.unseen_cost_share > b.unseen_cost_share;
  });
  return unseen;
}

/// Places that are late beyond chance by comparison with their likes, at a cost too small for a verdict. What kernels
/// or stages prove by themselves has findings of its own.
std::vector<SuspectedStraggler> find_slight(std::span<const RankSummary> ranks, const Totals& totals,
                                            std::span<const Place> places, const Probabilities& probabilities,
                                            std::span<const Straggler> named, const JobDelays& delays,
                                            const StragglerCriteria& criteria) {
  std::vector<SuspectedStraggler> slight;
  for (const std::size_t p : explaining_places(places, probabilities.proven, delays)) {
    const double proven_share = share_of(probabilities.cost_ns[p], ranks);
    if (proven_share >= criteria.smallest_cost_share) continue;
    const double p_value = probabilities.proven[p];
    if (slow_rank_behind(places[p], delays) != nullptr || slow_by_kernels(places[p], delays) <= p_value ||
        overfull_by_chance(places[p], delays) <= p_value)
      continue;
    SuspectedStraggler one;
    one.late = describe(places[p], p_value, ranks, totals);
    // What else they cost, now and then, is not beyond chance.
    one.late.delay_cost_ns = probabilities.cost_ns[p];
    one.late.cost_share = proven_share;
    one.doubt = Doubt::slight;
    one.verdict_p_value = probabilities.limit[p];
    one.steps = static_cast<std::int64_t>(delays.steps);
    if (is_new(one, named)) slight.push_back(std::move(one));
  }
  std::stable_sort(slight.begin(), slight.end(), [](const SuspectedStraggler& a, const SuspectedStraggler& b) {
    return a.late.delay_cost_ns > b.late.delay_cost_ns;
  });
  return slight;
}

}  // namespace

Named find_stragglers(std::span<const RankSummary> ranks, const Totals& totals, const JobDelays& all_delays,
                      std::span<const Grouping> groupings, const StragglerCriteria& criteria) {
  const std::vector<Place> places = list_places(ranks.size(), groupings);
  const double limit = criteria.false_alarm_rate / static_cast<double>(std::max<std::size_t>(1, places.size()));
  const std::vector<double> nothing(places.size(), 1);
  Probabilities probabilities{nothing, nothing, nothing, std::vector<double>(places.size(), limit), {}};
  for (const Place& place : places) probabilities.cost_ns.push_back(cost_of(place, ranks));
  JobDelays delays = all_delays;
  const SlowRanks slow_ranks = proven_slow_ranks(delays, limit);
  take_off_slow_transfers(slow_ranks, delays);
  const std::vector<std::vector<std::size_t>> classes = classes_of_likes(places, delays);
  for (std::vector<std::size_t> likes : classes) {
    const auto tests = static_cast<double>(classes.size() * likes.size());
    leave_out_slow_ranks(slow_ranks, places, likes);
    test_class(likes, places, delays, criteria.false_alarm_rate / tests, criteria.unproven_rate / tests, probabilities);
  }
  const auto prove = [&](std::size_t p, double p_value) {
    probabilities.proven[p] = std::min(probabilities.proven[p], p_value);
    probabilities.cost_ns[p] = cost_of(places[p], ranks);
  };
  for (std::size_t p = 0; p < places.size(); ++p)
    for (const double p_value : {slow_by_kernels(places[p], delays), overfull_by_chance(places[p], delays)})
      if (p_value <= limit) prove(p, p_value);

  Named named;
  std::vector<std::size_t> needed = explaining_places(places, probabilities.proven, delays);
  std::erase_if(needed, [&](std::size_t p) {
    return slow_rank_behind(places[p], delays) == nullptr &&
           share_of(probabilities.cost_ns[p], ranks) < criteria.smallest_cost_share;
  });
  for (Straggler& straggler :
       describe_culprits(needed, places, probabilities.proven, slow_ranks, ranks, totals, delays, all_delays)) {
    straggler.gpu_hours_per_day = straggler.cost_share * static_cast<double>(24 * ranks.size());
    if (straggler.cost_share >= criteria.smallest_cost_share) named.stragglers.push_back(std::move(straggler));
  }
  std::stable_sort(named.stragglers.begin(), named.stragglers.end(),
                   [](const Straggler& a, const Straggler& b) { return a.delay_cost_ns > b.delay_cost_ns; });
  named.suspects = find_unseen(ranks, totals, places, probabilities, named.stragglers, delays, criteria);
  std::vector<Straggler> told = named.stragglers;
  for (const SuspectedStraggler& unseen : named.suspects) told.push_back(unseen.late);
  for (const auto find : {find_hidden, find_unproven, find_slight})  // beyond chance first
    for (SuspectedStraggler& suspect : find(ranks, totals, places, probabilities, named.stragglers, delays, criteria))
      if (is_new(suspect, told)) {
        told.push_back(suspect.late);
        named.suspects.push_back(std::move(suspect));
      }
  return named;
}

}  // namespace nsys_explain::analysis
