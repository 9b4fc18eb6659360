#include "nsys_explain/analysis/stragglers.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace nsys_explain::analysis {

double binomial_upper_tail(std::int64_t trials, std::int64_t successes, double chance) {
  if (successes <= 0) return 1;
  if (successes > trials || chance <= 0) return 0;
  if (chance >= 1) return 1;
  const double n = static_cast<double>(trials);
  double sum = 0;
  for (std::int64_t k = successes; k <= trials; ++k) {
    const double x = static_cast<double>(k);
    const double log_term = std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) + x * std::log(chance) +
                            (n - x) * std::log1p(-chance);
    const double term = std::exp(log_term);
    sum += term;
    // Beyond the mean the terms fall at least geometrically: the rest cannot matter any more.
    if (x > n * chance && term < sum * 1e-17) break;
  }
  return std::min(1.0, sum);
}

double independent_draws(std::int64_t trials, std::int64_t successes, std::span<const LagTotals> lags) {
  const double mean = static_cast<double>(successes) / static_cast<double>(trials);
  const double variance = mean * (1 - mean);
  if (variance <= 0) return static_cast<double>(trials);
  double inflation = 1;
  for (const LagTotals& lag : lags) {
    if (lag.pairs == 0) break;
    // The sum of (x - mean)(x' - mean) over the pairs, so that the ends of the series count as what they are.
    const double covariance = static_cast<double>(lag.both_last) -
                              mean * static_cast<double>(lag.earlier_last + lag.later_last) +
                              mean * mean * static_cast<double>(lag.pairs);
    if (covariance <= 0) break;
    inflation += 2 * covariance / (variance * static_cast<double>(trials));
  }
  return static_cast<double>(trials) / inflation;
}

std::vector<Straggler> find_stragglers(std::span<const RankSummary> ranks, const Totals& totals,
                                       const StragglerCriteria& criteria) {
  Nanoseconds all_windows = 0;
  for (const RankSummary& rank : ranks) all_windows += rank.budget.window_ns;

  // The mean chance over instances of different size gives a tail no lighter than the true one (Hoeffding 1956).
  std::vector<double> p_values(ranks.size(), 1);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankTotals& t = totals.ranks[r];
    if (t.resolved == 0) continue;
    const double chance = static_cast<double>(t.expected_last_ppb) * 1e-9 / static_cast<double>(t.resolved);
    const double draws =
        independent_draws(t.resolved, t.own_last_arrivals, std::span(totals.lags).subspan(r * lag_count, lag_count));
    const double share = static_cast<double>(t.own_last_arrivals) / static_cast<double>(t.resolved);
    p_values[r] = binomial_upper_tail(std::llround(draws), static_cast<std::int64_t>(share * draws), chance);
  }
  std::vector<std::size_t> by_p(ranks.size());
  std::iota(by_p.begin(), by_p.end(), 0);
  std::stable_sort(by_p.begin(), by_p.end(), [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::size_t significant = 0;
  for (std::size_t i = 0; i < by_p.size(); ++i) {
    const double limit = criteria.false_discovery_rate * static_cast<double>(i + 1) / static_cast<double>(by_p.size());
    if (p_values[by_p[i]] <= limit) significant = i + 1;
  }

  std::vector<Straggler> stragglers;
  for (std::size_t i = 0; i < significant; ++i) {
    const std::size_t r = by_p[i];
    const RankTotals& t = totals.ranks[r];
    const double share = all_windows > 0 ? static_cast<double>(t.caused_wait_ns) / static_cast<double>(all_windows) : 0;
    if (share < criteria.smallest_cost_share) continue;
    Straggler straggler;
    straggler.trace_rank = ranks[r].trace_rank;
    straggler.own_lateness_ns = t.own_lateness_ns;
    straggler.caused_wait_ns = t.caused_wait_ns;
    straggler.last_share = static_cast<double>(t.last_arrivals) / static_cast<double>(t.resolved);
    straggler.p_value = p_values[r];
    straggler.first_ns = totals.spans[r].first_ns;
    straggler.last_ns = totals.spans[r].last_ns;
    straggler.evidence.push_back(fmt::format(
        "last in {} of {} collectives whose last arriver the clock can tell; {:.1f} would be chance (p = {:.1e})",
        t.last_arrivals, t.resolved, static_cast<double>(t.expected_last_ppb) * 1e-9, p_values[r]));
    straggler.evidence.push_back(fmt::format(
        "in {} of them at least half of its lateness was its own work, {:.3f} ms on average", t.own_last_arrivals,
        static_cast<double>(t.caused_lateness_ns) * 1e-6 / static_cast<double>(t.own_last_arrivals)));
    stragglers.push_back(std::move(straggler));
  }
  std::stable_sort(stragglers.begin(), stragglers.end(),
                   [](const Straggler& a, const Straggler& b) { return a.caused_wait_ns > b.caused_wait_ns; });
  return stragglers;
}

}  // namespace nsys_explain::analysis
