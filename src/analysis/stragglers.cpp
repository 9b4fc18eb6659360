#include "nsys_explain/analysis/stragglers.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

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
  for (double& value : log_p) value = std::exp(value);
  return log_p;
}

std::vector<Straggler> find_stragglers(std::span<const RankSummary> ranks, const Totals& totals,
                                       const StragglerCriteria& criteria) {
  Nanoseconds all_windows = 0;
  for (const RankSummary& rank : ranks) all_windows += rank.budget.window_ns;

  std::vector<std::int64_t> caused = totals.caused_wait_ns;
  const std::size_t bins = pool_bins(caused, ranks.size(), bin_count);
  const std::vector<double> p_values = caused_wait_p_values(caused, ranks.size(), bins);
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
    if (t.resolved == 0 || t.own_last_arrivals == 0 || share < criteria.smallest_cost_share) continue;
    Straggler straggler;
    straggler.trace_rank = ranks[r].trace_rank;
    straggler.own_lateness_ns = t.own_lateness_ns;
    straggler.caused_wait_ns = t.caused_wait_ns;
    straggler.last_share = static_cast<double>(t.last_arrivals) / static_cast<double>(t.resolved);
    straggler.p_value = p_values[r];
    straggler.first_ns = totals.spans[r].first_ns;
    straggler.last_ns = totals.spans[r].last_ns;
    straggler.evidence.push_back(
        fmt::format("last in {} of {} collectives whose last arriver the clock can tell; {:.1f} would be chance",
                    t.last_arrivals, t.resolved, static_cast<double>(t.expected_last_ppb) * 1e-9));
    straggler.evidence.push_back(fmt::format(
        "in {} of them at least half of its lateness was its own work, {:.3f} ms on average", t.own_last_arrivals,
        static_cast<double>(t.caused_lateness_ns) * 1e-6 / static_cast<double>(t.own_last_arrivals)));
    straggler.evidence.push_back(fmt::format(
        "were all ranks alike, one of them would cause this much waiting with a probability of at most {:.1e} "
        "({} spans of time)",
        p_values[r], bins));
    stragglers.push_back(std::move(straggler));
  }
  std::stable_sort(stragglers.begin(), stragglers.end(),
                   [](const Straggler& a, const Straggler& b) { return a.caused_wait_ns > b.caused_wait_ns; });
  return stragglers;
}

}  // namespace nsys_explain::analysis
