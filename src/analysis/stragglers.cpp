#include "nsys_explain/analysis/stragglers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {

namespace {

/// Grid of the bound's parameter in units of 1 / (largest value): from hardly any weight on large values to nothing
/// else.
constexpr int grid_points = 96;
double grid_value(int point) {
  return 0.01 * std::pow(10.0, 5.0 * point / (grid_points - 1));
}

double mean_autocorrelation(std::span<const std::int64_t> caused, std::size_t ranks, std::size_t bins) {
  double covariance = 0, variance = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto row = caused.subspan(r * bins, bins);
    const double mean =
        static_cast<double>(std::accumulate(row.begin(), row.end(), std::int64_t{0})) / static_cast<double>(bins);
    for (std::size_t b = 0; b < bins; ++b) {
      const double deviation = static_cast<double>(row[b]) - mean;
      variance += deviation * deviation;
      if (b + 1 < bins) covariance += deviation * (static_cast<double>(row[b + 1]) - mean);
    }
  }
  return variance > 0 ? covariance / variance : 0;
}

}  // namespace

std::size_t bins_of_steps(std::size_t steps) {
  return std::min(steps, most_bins);
}

std::size_t bin_of_step(std::size_t step, std::size_t steps) {
  const std::size_t bins = bins_of_steps(steps);
  return std::min(step * bins / steps, bins - 1);
}

std::size_t pool_bins(std::vector<std::int64_t>& caused, std::size_t ranks, std::size_t bins) {
  constexpr std::size_t fewest = 16;
  while (bins / 2 >= fewest && bins % 2 == 0 && mean_autocorrelation(caused, ranks, bins) >= 0.1) {
    // Pair (r, b), (r, b + 1) lies at 2i, 2i + 1 for the i-th entry of the result.
    for (std::size_t i = 0; i < ranks * bins / 2; ++i) caused[i] = caused[2 * i] + caused[2 * i + 1];
    bins /= 2;
    caused.resize(ranks * bins);
  }
  return bins;
}

std::vector<double> caused_wait_p_values(std::span<const std::int64_t> caused, std::size_t ranks, std::size_t bins) {
  std::vector<double> log_p(ranks, 0);
  std::int64_t largest = 0;
  for (const std::int64_t value : caused) largest = std::max(largest, value);
  std::vector<double> sums(ranks, 0);
  if (largest > 0) {
    for (std::size_t i = 0; i < caused.size(); ++i) {
      sums[i / bins] += static_cast<double>(caused[i]) / static_cast<double>(largest);
    }
    for (int point = 0; point < grid_points; ++point) {
      const double weight = grid_value(point);
      double log_moments = 0;
      for (std::size_t b = 0; b < bins; ++b) {
        std::int64_t highest = 0;
        for (std::size_t r = 0; r < ranks; ++r) highest = std::max(highest, caused[r * bins + b]);
        double moments = 0;
        for (std::size_t r = 0; r < ranks; ++r) {
          moments +=
              std::exp(weight * static_cast<double>(caused[r * bins + b] - highest) / static_cast<double>(largest));
        }
        log_moments += weight * static_cast<double>(highest) / static_cast<double>(largest) +
                       std::log(moments / static_cast<double>(ranks));
      }
      for (std::size_t r = 0; r < ranks; ++r) log_p[r] = std::min(log_p[r], log_moments - weight * sums[r]);
    }
  }
  // As small as chance may be: a probability that a double cannot hold is not 0.
  for (double& value : log_p) value = std::max(std::exp(value), std::numeric_limits<double>::min());
  return log_p;
}

namespace {

/// Sums over the trace ranks of each of the chosen places, one row of bins each; what is below 0 counts as 0.
std::vector<std::int64_t> rows_of(std::span<const std::int64_t> by_rank, std::span<const std::size_t> chosen,
                                  std::span<const Place> places, std::size_t bins) {
  std::vector<std::int64_t> rows(chosen.size() * bins, 0);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    for (const std::size_t r : places[chosen[i]].ranks)
      for (std::size_t b = 0; b < bins; ++b) rows[i * bins + b] += by_rank[r * bins + b];
  }
  for (std::int64_t& value : rows) value = std::max<std::int64_t>(0, value);
  return rows;
}

/// The delays, but none longer than the largest of a typical bin. Which rank a delay is dealt out to does not change
/// that limit, so what is tested with it is as valid.
std::vector<std::int64_t> limited(std::vector<std::int64_t> rows, std::size_t bins) {
  std::vector<std::int64_t> largest(bins, 0);
  for (std::size_t i = 0; i < rows.size(); ++i) largest[i % bins] = std::max(largest[i % bins], rows[i]);
  std::erase(largest, 0);
  if (largest.empty()) return rows;
  const std::int64_t limit = lower_median(largest);
  for (std::int64_t& value : rows) value = std::min(value, limit);
  return rows;
}

/// As caused_wait_p_values, for delays of any length and, at a hundredth of the error rate, for limited ones: two
/// culprits of a small job, one with a few long delays and one with many short ones, hide behind each other in sums.
std::vector<double> p_values_of_rows(const std::vector<std::int64_t>& rows, std::size_t count, std::size_t bins) {
  constexpr double part_of_limited = 0.01;
  const std::vector<double> of_any = caused_wait_p_values(rows, count, bins);
  const std::vector<double> of_limited = caused_wait_p_values(limited(rows, bins), count, bins);
  std::vector<double> p_values;
  for (std::size_t i = 0; i < count; ++i)
    p_values.push_back(std::min({1.0, of_any[i] / (1 - part_of_limited), of_limited[i] / part_of_limited}));
  return p_values;
}

/// Bounds on the probability that these places, were they alike, both delay others as much and themselves take as much
/// longer as they do. Cost alone does not tell: who is last for a reason of another kind (a process that nobody
/// recorded, ends of collectives that differ) is charged with what noise adds, and never with what it takes away.
std::vector<double> p_values_of(std::span<const std::size_t> chosen, std::span<const Place> places,
                                const JobDelays& delays) {
  std::vector<double> p_values(chosen.size(), 0);
  for (const std::vector<std::int64_t>* by_rank : {&delays.cost_ns, &delays.excess_work_ns}) {
    std::vector<std::int64_t> rows = rows_of(*by_rank, chosen, places, delays.bins);
    // Steps are independent draws; spans of time need not be.
    const std::size_t bins = delays.by_step ? delays.bins : pool_bins(rows, chosen.size(), delays.bins);
    const std::vector<double> p = p_values_of_rows(rows, chosen.size(), bins);
    for (std::size_t i = 0; i < p.size(); ++i) p_values[i] = std::max(p_values[i], p[i]);
  }
  return p_values;
}

/// Places that chance would treat alike: of one level, with trace ranks of the same roles. GPUs whose role nobody
/// shares were compared with themselves over time, and that makes them alike.
std::vector<std::vector<std::size_t>> classes_of_likes(std::span<const Place> places, const JobDelays& delays) {
  std::map<std::pair<Level, std::vector<std::uint64_t>>, std::vector<std::size_t>> by_roles;
  for (std::size_t p = 0; p < places.size(); ++p) {
    std::vector<std::uint64_t> roles;
    for (const std::size_t r : places[p].ranks) roles.push_back(delays.role[r]);
    std::sort(roles.begin(), roles.end());
    by_roles[{places[p].level, std::move(roles)}].push_back(p);
  }
  std::vector<std::vector<std::size_t>> classes;
  std::vector<std::size_t> alone;
  for (auto& [roles, members] : by_roles) {
    if (members.size() > 1) {
      classes.push_back(std::move(members));
    } else if (roles.first == Level::gpu) {
      alone.push_back(members.front());
    }
  }
  if (alone.size() > 1) classes.push_back(std::move(alone));
  return classes;
}

/// What chance has to say about each place.
struct Probabilities {
  std::vector<double> proven;  ///< up to the limit of verdicts; 1 above
  std::vector<double> likely;  ///< above that, up to the limit of a mention; 1 elsewhere
};

/// Takes one culprit after the other out of a class, down to the first that is not proven.
void test_class(std::vector<std::size_t> members, std::span<const Place> places, const JobDelays& delays, double limit,
                double mention_limit, Probabilities& probabilities) {
  while (members.size() > 1) {
    const std::vector<double> p = p_values_of(members, places, delays);
    const auto best = std::min_element(p.begin(), p.end()) - p.begin();
    const std::size_t place = members[static_cast<std::size_t>(best)];
    const double p_value = p[static_cast<std::size_t>(best)];
    if (p_value > limit) {
      if (p_value <= mention_limit && delays.by_step) probabilities.likely[place] = p_value;
      return;
    }
    probabilities.proven[place] = p_value;
    members.erase(members.begin() + best);
  }
}

/// Probability that chance makes all GPUs of a place as slow as their kernels are; 1 where one of them is not slow.
double slow_by_kernels(const Place& place, const JobDelays& delays) {
  double p_value = 0;
  for (const std::size_t r : place.ranks)
    p_value = std::max(p_value, delays.speed[r].slow ? delays.speed[r].p_value : 1);
  return p_value;
}

/// Probability that chance gives a pipeline stage so much more than its part of the layers; 1 where it has no more.
double overfull_by_chance(const Place& place, const JobDelays& delays) {
  const StageBalance* stage = find_overfull_stage(delays, place.ranks);
  return stage == nullptr ? 1 : stage->p_value;
}

/// Two-sided probability that of `all` bins so many, or so few, go to one of two that are alike.
double sign_test(std::size_t one, std::size_t all) {
  const auto n = static_cast<double>(all);
  double tail = 0;
  for (std::size_t k = 0; k <= std::min(one, all - one); ++k) {
    const auto successes = static_cast<double>(k);
    tail += std::exp(std::lgamma(n + 1) - std::lgamma(successes + 1) - std::lgamma(n - successes + 1) -
                     n * std::numbers::ln2);
  }
  return std::min(1.0, 2 * tail);
}

/// True where two ranks are late at different times, by more than the chance with which one trouble may hit now this,
/// now that of them: they have less than half of their lateness in common, and one of them is ahead in most bins.
bool late_at_other_times(std::size_t a, std::size_t b, const JobDelays& delays) {
  constexpr double chance = 0.01;
  Nanoseconds common = 0, all = 0;
  std::size_t ahead = 0, different = 0;
  for (std::size_t bin = 0; bin < delays.bins; ++bin) {
    const Nanoseconds of_a = std::max<Nanoseconds>(0, delays.excess_work_ns[a * delays.bins + bin]);
    const Nanoseconds of_b = std::max<Nanoseconds>(0, delays.excess_work_ns[b * delays.bins + bin]);
    common += 2 * std::min(of_a, of_b);
    all += of_a + of_b;
    if (of_a == of_b) continue;
    ++different;
    if (of_a > of_b) ++ahead;
  }
  return 2 * common < all && sign_test(ahead, different) < chance;
}

/// A place in which two culprits, each proven by itself, are late at other times than each other.
bool holds_two_culprits(const Place& place, std::span<const Place> places, std::span<const double> p_values,
                        const JobDelays& delays) {
  std::vector<std::size_t> culprits;
  for (std::size_t p = 0; p < places.size(); ++p) {
    const std::vector<std::size_t>& ranks = places[p].ranks;
    if (p_values[p] < 1 && ranks.size() == 1 &&
        std::binary_search(place.ranks.begin(), place.ranks.end(), ranks.front()))
      culprits.push_back(ranks.front());
  }
  for (std::size_t i = 0; i < culprits.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (late_at_other_times(culprits[i], culprits[j], delays)) return true;
  return false;
}

/// The places of those with a p-value below 1 that a fit of the ranks' excess work needs.
std::vector<std::size_t> explaining_places(std::span<const Place> places, std::span<const double> p_values,
                                           const JobDelays& delays) {
  std::vector<std::size_t> significant;
  std::vector<Place> candidates;
  for (std::size_t p = 0; p < places.size(); ++p) {
    if (p_values[p] >= 1) continue;
    if (places[p].ranks.size() > 1 && holds_two_culprits(places[p], places, p_values, delays)) continue;
    significant.push_back(p);
    candidates.push_back(places[p]);
  }
  std::vector<Nanoseconds> lateness;
  for (std::size_t r = 0; r < delays.role.size(); ++r)
    lateness.push_back(std::max<Nanoseconds>(0, delays.excess_of(r)));
  const std::vector<Nanoseconds> parts = fit_places(lateness, candidates);
  std::vector<std::size_t> needed;
  for (std::size_t i = 0; i < significant.size(); ++i)
    if (parts[i] > 0) needed.push_back(significant[i]);
  return needed;
}

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

bool late_by_transfers(std::span<const std::size_t> ranks, const JobDelays& delays) {
  Nanoseconds transfers = 0, excess = 0;
  for (const std::size_t r : ranks) {
    transfers += delays.slow_transfer_ns[r];
    excess += delays.excess_of(r);
  }
  return transfers > 0 && 2 * transfers > excess;
}

/// The slow trace rank whose transfers are most of what the place takes longer than its likes, if there is one: it is
/// of the place, or exchanges with all of it.
const SlowRank* slow_rank_behind(const Place& place, const JobDelays& delays) {
  if (!late_by_transfers(place.ranks, delays)) return nullptr;
  const auto found = std::find_if(delays.slow_ranks.begin(), delays.slow_ranks.end(), [&](const SlowRank& slow) {
    return std::binary_search(place.ranks.begin(), place.ranks.end(), slow.rank) ||
           std::includes(slow.partners.begin(), slow.partners.end(), place.ranks.begin(), place.ranks.end());
  });
  return found != delays.slow_ranks.end() ? &*found : nullptr;
}

/// The slow trace rank and all that are late by its transfers.
Place late_with(const SlowRank& slow, const JobDelays& delays) {
  Place late{Level::gpu, "", {slow.rank}, {}};
  for (const std::size_t r : slow.partners)
    if (r != slow.rank && late_by_transfers(std::span(&r, 1), delays)) late.ranks.push_back(r);
  return late;
}

/// Bound on the probability that just these ranks, were all alike, take as much longer as they do together. Who shares
/// slow transfers is last now here, now there, so none of them need stand out. Chernoff's bound for the sum over a set:
/// drawing its members without putting them back is at most as wild as with (Hoeffding 1963), so each adds its factor.
double p_value_of_set(std::span<const std::size_t> set, const JobDelays& delays) {
  const std::size_t count = delays.role.size();
  std::int64_t largest = 1;
  for (const std::int64_t value : delays.excess_work_ns) largest = std::max(largest, value);
  const auto value_of = [&](std::size_t rank, std::size_t bin) {
    const std::int64_t excess = std::max<std::int64_t>(0, delays.excess_work_ns[rank * delays.bins + bin]);
    return static_cast<double>(excess) / static_cast<double>(largest);
  };
  double sum = 0;
  for (const std::size_t r : set)
    for (std::size_t b = 0; b < delays.bins; ++b) sum += value_of(r, b);
  double log_p = 0;
  for (int point = 0; point < grid_points; ++point) {
    const double weight = std::min(grid_value(point), 500.0);  // beyond, a moment no longer fits a double
    double log_moments = 0;
    for (std::size_t b = 0; b < delays.bins; ++b) {
      double moments = 0;
      for (std::size_t r = 0; r < count; ++r) moments += std::exp(weight * value_of(r, b));
      log_moments += std::log(moments / static_cast<double>(count));
    }
    log_p = std::min(log_p, static_cast<double>(set.size()) * log_moments - weight * sum);
  }
  return std::max(std::exp(log_p), std::numeric_limits<double>::min());
}

/// Slow trace ranks that make others late beyond chance, with its probability; in the order of the list.
using SlowRanks = std::map<const SlowRank*, double>;

SlowRanks proven_slow_ranks(const JobDelays& delays, double limit) {
  SlowRanks proven;
  for (const SlowRank& slow : delays.slow_ranks) {
    if (!late_by_transfers(std::span(&slow.rank, 1), delays)) continue;
    const double p_value = p_value_of_set(late_with(slow, delays).ranks, delays);
    if (p_value <= limit) proven.emplace(&slow, p_value);
  }
  return proven;
}

/// Leaves out GPUs whose lateness is a slow trace rank's, so that they hide no other culprit.
void leave_out_explained(const SlowRanks& slow_ranks, std::span<const Place> places, const JobDelays& delays,
                         std::vector<std::size_t>& likes) {
  for (const auto& entry : slow_ranks) {
    const std::vector<std::size_t> late = late_with(*entry.first, delays).ranks;
    std::erase_if(likes, [&](std::size_t p) {
      return places[p].level == Level::gpu &&
             std::find(late.begin(), late.end(), places[p].ranks.front()) != late.end();
    });
  }
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

Nanoseconds JobDelays::excess_of(std::size_t rank) const {
  const auto row = excess_work_ns.begin() + static_cast<std::ptrdiff_t>(rank * bins);
  return std::accumulate(row, row + static_cast<std::ptrdiff_t>(bins), Nanoseconds{0});
}

const StageBalance* find_overfull_stage(const JobDelays& delays, std::span<const std::size_t> ranks) {
  const auto found = std::find_if(delays.stages.begin(), delays.stages.end(), [&](const StageBalance& stage) {
    return stage.overfull() && std::equal(stage.ranks.begin(), stage.ranks.end(), ranks.begin(), ranks.end());
  });
  return found == delays.stages.end() ? nullptr : &*found;
}

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
