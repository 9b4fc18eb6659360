#include "nsys_explain/analysis/stragglers.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "slow_ranks.hpp"
#include "suspects.hpp"

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

Straggler describe(const Place& place, double p_value, std::span<const RankSummary> ranks, const Totals& totals,
                   const JobDelays& delays) {
  Straggler straggler;
  straggler.level = place.level;
  straggler.place = place.name;
  straggler.also = place.also;
  straggler.p_value = p_value;
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
  straggler.evidence.push_back(
      fmt::format("last in {} of {} collectives whose last arriver the clock can tell; {:.1f} would be chance", last,
                  resolved, static_cast<double>(expected_ppb) * 1e-9));
  if (own_last > 0) {
    straggler.evidence.push_back(
        fmt::format("in {} of them at least half of its lateness was its own work, {:.3f} ms on average", own_last,
                    static_cast<double>(caused_lateness_ns) * 1e-6 / static_cast<double>(own_last)));
  }
  if (slow_by_kernels(place, delays) == p_value) {
    double ratio = 0;
    for (const std::size_t r : place.ranks) ratio += delays.speed[r].ratio / static_cast<double>(place.ranks.size());
    straggler.evidence.push_back(
        fmt::format("kernels of equal name, grid and block take {:.3f} times as long as on its peers (tables gpu_speed "
                    "and kernel_peers), with a probability of {} by chance",
                    ratio, p_value < 1e-16 ? "less than 1e-16" : fmt::format("{:.1e}", p_value)));
    return straggler;
  }
  if (const StageBalance* stage = find_overfull_stage(delays, place.ranks)) {
    straggler.evidence.push_back(describe_balance(*stage));
    if (stage->p_value == p_value) return straggler;
  }
  straggler.evidence.push_back(
      fmt::format("were it like its peers, it would take this much longer and cost this much with a probability of "
                  "at most {:.1e} ({} {})",
                  p_value, delays.bins, delays.by_step ? "spans of whole steps" : "spans of time"));
  return straggler;
}

/// What the delays of a place cost, as a share of all trace ranks' window time.
double cost_share_of(const Place& place, std::span<const RankSummary> ranks) {
  Nanoseconds windows = 0, cost = 0;
  for (const RankSummary& rank : ranks) windows += rank.budget.window_ns;
  for (const std::size_t r : place.ranks) cost += ranks[r].delay_cost_ns;
  return windows > 0 ? static_cast<double>(cost) / static_cast<double>(windows) : 0;
}

/// A slow trace rank with what its transfers cost: its own delays, and those of all that are late by them.
Straggler describe_slow_rank(const SlowRank& slow, double p_value, std::span<const RankSummary> ranks,
                             const Totals& totals, const JobDelays& delays) {
  Straggler culprit = describe({Level::gpu, "", {slow.rank}, {}}, p_value, ranks, totals, delays);
  const Place late = late_with(slow, delays);
  std::vector<std::int32_t> others;
  for (const std::size_t r : std::span(late.ranks).subspan(1)) {
    others.push_back(ranks[r].trace_rank);
    culprit.delay_cost_ns += ranks[r].delay_cost_ns;
  }
  culprit.cost_share = cost_share_of(late, ranks);
  if (!others.empty())
    culprit.evidence.push_back(fmt::format(
        "trace ranks {} exchange with it, and are late with it by the same transfers: their cost is in its own",
        fmt::join(others, ", ")));
  return culprit;
}

/// The culprits of these places: each place itself, but one trace rank for all that are late by its slow transfers.
std::vector<Straggler> describe_culprits(std::span<const std::size_t> needed, std::span<const Place> places,
                                         std::span<const double> p_values, SlowRanks slow_ranks,
                                         std::span<const RankSummary> ranks, const Totals& totals,
                                         const JobDelays& delays) {
  std::vector<Straggler> culprits;
  for (const std::size_t p : needed) {
    if (const SlowRank* slow = slow_rank_behind(places[p], delays)) {
      double& p_value = slow_ranks.try_emplace(slow, 1).first->second;
      p_value = std::min(p_value, p_values[p]);
      continue;
    }
    culprits.push_back(describe(places[p], p_values[p], ranks, totals, delays));
    culprits.back().cost_share = cost_share_of(places[p], ranks);
  }
  for (const auto& [slow, p_value] : slow_ranks)
    culprits.push_back(describe_slow_rank(*slow, p_value, ranks, totals, delays));
  return culprits;
}

/// Places that steps enough to tell would probably prove: costly, and none of their trace ranks named yet.
std::vector<UnprovenStraggler> find_unproven(std::span<const RankSummary> ranks, std::span<const Place> places,
                                             std::span<const double> p_values, std::span<const Straggler> named,
                                             double limit, const JobDelays& delays, const StragglerCriteria& criteria) {
  std::vector<UnprovenStraggler> unproven;
  for (const std::size_t p : explaining_places(places, p_values, delays)) {
    UnprovenStraggler one{places[p].level, places[p].name, {}, cost_share_of(places[p], ranks),
                          p_values[p],     limit,          0,  0};
    for (const std::size_t r : places[p].ranks) one.trace_ranks.push_back(ranks[r].trace_rank);
    const bool explained = std::any_of(named.begin(), named.end(), [&](const Straggler& straggler) {
      return std::find_first_of(straggler.trace_ranks.begin(), straggler.trace_ranks.end(), one.trace_ranks.begin(),
                                one.trace_ranks.end()) != straggler.trace_ranks.end();
    });
    if (explained || one.cost_share < criteria.unproven_cost_share) continue;
    // The logarithm of the bound is a sum over independent bins, each of equally many steps.
    one.steps = static_cast<std::int64_t>(delays.steps);
    one.steps_needed = static_cast<std::int64_t>(
        std::ceil(static_cast<double>(delays.steps) * std::log(limit) / std::log(one.p_value)));
    unproven.push_back(std::move(one));
  }
  std::stable_sort(unproven.begin(), unproven.end(),
                   [](const UnprovenStraggler& a, const UnprovenStraggler& b) { return a.cost_share > b.cost_share; });
  return unproven;
}

}  // namespace

Named find_stragglers(std::span<const RankSummary> ranks, const Totals& totals, const JobDelays& delays,
                      std::span<const Grouping> groupings, const StragglerCriteria& criteria) {
  const std::vector<Place> places = list_places(ranks.size(), groupings);
  Probabilities probabilities{std::vector<double>(places.size(), 1), std::vector<double>(places.size(), 1)};
  const auto tests = static_cast<double>(std::max<std::size_t>(1, places.size()));
  const double limit = criteria.false_alarm_rate / tests;
  const SlowRanks slow_ranks = proven_slow_ranks(delays, limit);
  for (auto& likes : classes_of_likes(places, delays)) {
    leave_out_explained(slow_ranks, places, delays, likes);
    test_class(likes, places, delays, limit, criteria.unproven_rate / tests, probabilities);
  }
  for (std::size_t p = 0; p < places.size(); ++p)
    for (const double p_value : {slow_by_kernels(places[p], delays), overfull_by_chance(places[p], delays)})
      if (p_value <= limit) probabilities.proven[p] = std::min(probabilities.proven[p], p_value);

  Named named;
  const std::vector<std::size_t> needed = explaining_places(places, probabilities.proven, delays);
  for (Straggler& straggler :
       describe_culprits(needed, places, probabilities.proven, slow_ranks, ranks, totals, delays)) {
    straggler.gpu_hours_per_day = straggler.cost_share * static_cast<double>(24 * ranks.size());
    if (straggler.cost_share >= criteria.smallest_cost_share) named.stragglers.push_back(std::move(straggler));
  }
  std::stable_sort(named.stragglers.begin(), named.stragglers.end(),
                   [](const Straggler& a, const Straggler& b) { return a.delay_cost_ns > b.delay_cost_ns; });
  named.unproven = find_unproven(ranks, places, probabilities.likely, named.stragglers, limit, delays, criteria);
  return named;
}

}  // namespace nsys_explain::analysis
