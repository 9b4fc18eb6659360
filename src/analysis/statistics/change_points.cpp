#include "analysis/statistics/significance.hpp"

#include <cmath>
#include <cstdlib>
#include <numbers>
#include <tuple>

#include "analysis/statistics/statistics.hpp"

namespace nsys_explain::analysis {
namespace {

using Series = std::span<const std::int64_t>;

std::int64_t median_of(Series series) {
  return lower_median(std::vector<std::int64_t>(series.begin(), series.end()));
}

/// From 1 on; equal values share the mean of theirs.
std::vector<double> ranks_of(Series series) {
  std::vector<std::int64_t> sorted(series.begin(), series.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> ranks;
  for (const std::int64_t value : series) {
    const auto [first, end] = std::equal_range(sorted.begin(), sorted.end(), value);
    ranks.push_back(static_cast<double>((first - sorted.begin()) + (end - sorted.begin()) + 1) / 2);
  }
  return ranks;
}

/// Of values that follow each other; not below 0.
double lag_correlation(Series series) {
  const std::vector<double> ranks = ranks_of(series);
  const double mean = static_cast<double>(ranks.size() + 1) / 2;
  double products = 0, squares = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    squares += (ranks[i] - mean) * (ranks[i] - mean);
    if (i > 0) products += (ranks[i] - mean) * (ranks[i - 1] - mean);
  }
  return squares > 0 ? std::clamp(products / squares, 0.0, 0.99) : 0;
}

/// Where U is most standard deviations off; 0: nowhere.
std::size_t widest_split(Series series) {
  const std::vector<double> ranks = ranks_of(series);
  const auto n = static_cast<double>(series.size());
  std::size_t best = 0;
  double sum = 0, widest = 0;
  for (std::size_t t = 1; t < series.size(); ++t) {
    sum += ranks[t - 1];
    const auto m = static_cast<double>(t);
    const double off = std::abs(sum - m * (n + 1) / 2) / std::sqrt(m * (n - m));  // but for what is equal everywhere
    if (off > widest) std::tie(best, widest) = std::pair(t, off);
  }
  return best;
}

/// Where values go from nearer to one median to nearer to the other, about a split. By ranks alone a change that is not
/// in the middle may seem nearer to it.
std::size_t place_of_change(Series series, std::size_t split) {
  const std::int64_t before = median_of(series.first(split)), after = median_of(series.subspan(split));
  std::size_t best = split;
  std::int64_t sum = 0, least = 0;  // of how much farther those before are from theirs than from the other median
  for (std::size_t t = 1; t < series.size(); ++t) {
    sum += std::abs(series[t - 1] - before) - std::abs(series[t - 1] - after);
    if (sum < least) std::tie(best, least) = std::pair(t, sum);
  }
  return best;
}

/// Values less the median of their half.
std::vector<std::int64_t> residuals_of(Series series, std::size_t split) {
  std::vector<std::int64_t> residuals;
  for (const Series half : {series.first(split), series.subspan(split)}) {
    const std::int64_t median = median_of(half);
    for (const std::int64_t value : half) residuals.push_back(value - median);
  }
  return residuals;
}

/// How far values are from those before them, ascending: other changes of the series hardly show in it.
std::vector<std::int64_t> jumps_of(Series series) {
  std::vector<std::int64_t> jumps;
  for (std::size_t i = 1; i < series.size(); ++i) jumps.push_back(std::abs(series[i] - series[i - 1]));
  std::sort(jumps.begin(), jumps.end());
  return jumps;
}

/// That chance moves the median of `after` values so far from that of `before` ones.
double probability(double change, std::size_t before, std::size_t after, double correlation, double usual_jump) {
  const auto m = static_cast<double>(before), n = static_cast<double>(after);
  const double least = 2 * std::exp(std::lgamma(m + 1) + std::lgamma(n + 1) - std::lgamma(m + n + 1));
  const double deviation =
      1.4826 * usual_jump / std::numbers::sqrt2;  // of normal variables that differ so by the median
  const double of_medians =
      deviation * std::sqrt(std::numbers::pi / 2 * (1 / m + 1 / n) * (1 + correlation) / (1 - correlation));
  return of_medians > 0 ? std::max(least, std::erfc(change / of_medians / std::numbers::sqrt2)) : least;
}

/// Part of a series.
struct IndexRange {
  std::size_t first = 0, end = 0;
};

/// All of it, then parts half as long that overlap by half, and so on; the shortest first.
std::vector<IndexRange> seeded_intervals(std::size_t size) {
  constexpr std::size_t shortest = 8;  // of fewer the order proves nothing
  std::vector<IndexRange> intervals;
  for (std::size_t length = size; length >= shortest; length = (length + 1) / 2)
    for (std::size_t first = 0; first + length <= size; first += std::max<std::size_t>(1, length / 2))
      intervals.push_back({first, first + length});
  std::stable_sort(intervals.begin(), intervals.end(),
                   [](const IndexRange& a, const IndexRange& b) { return a.end - a.first < b.end - b.first; });
  return intervals;
}

/// The change within a part, whatever it is due to; `places`: of how many the probability is that of the most extreme.
std::optional<ChangePoint> change_within(Series part, std::size_t places, const ChangeCriteria& criteria) {
  const std::size_t by_ranks = widest_split(part);
  if (by_ranks == 0) return std::nullopt;
  const std::size_t split = place_of_change(part, by_ranks);
  const std::vector<std::int64_t> jumps = jumps_of(part);
  const std::int64_t before = median_of(part.first(split)), after = median_of(part.subspan(split));
  const auto change = static_cast<double>(std::abs(after - before));
  if (change <= 2 * percentile(jumps, 0.9) || change < criteria.least_change * static_cast<double>(before))
    return std::nullopt;
  const double p_value =
      static_cast<double>(places) * probability(change, split, part.size() - split,
                                                lag_correlation(residuals_of(part, split)), percentile(jumps, 0.5));
  return p_value <= criteria.false_alarm_rate ? std::optional(ChangePoint{split, before, after, p_value})
                                              : std::nullopt;
}

}  // namespace

std::vector<ChangePoint> change_points(Series series, const ChangeCriteria& criteria) {
  const std::vector<IndexRange> intervals = seeded_intervals(series.size());
  std::size_t places = 0;
  for (const IndexRange& interval : intervals) places += interval.end - interval.first;
  std::vector<ChangePoint> changes;
  for (const IndexRange& interval : intervals) {
    const std::size_t first = interval.first, end = interval.end;
    if (std::any_of(changes.begin(), changes.end(),
                    [&](const ChangePoint& known) { return known.first > first && known.first < end; }))
      continue;
    std::optional<ChangePoint> change = change_within(series.subspan(first, end - first), places, criteria);
    if (!change) continue;
    change->first += first;
    changes.push_back(*change);
  }
  std::sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t c = 0; c < changes.size(); ++c) {
    const std::size_t begin = c > 0 ? changes[c - 1].first : 0;
    const std::size_t end = c + 1 < changes.size() ? changes[c + 1].first : series.size();
    changes[c].before = median_of(series.subspan(begin, changes[c].first - begin));
    changes[c].after = median_of(series.subspan(changes[c].first, end - changes[c].first));
  }
  return changes;
}

}  // namespace nsys_explain::analysis
