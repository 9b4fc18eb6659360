#include "analysis/statistics/change_points.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <tuple>
#include <utility>

#include "analysis/statistics/statistics.hpp"
#include "nsys_explain/model/lower_median.hpp"

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

/// Values less the median of their half.
std::vector<std::int64_t> residuals_of(Series series, std::size_t split) {
  std::vector<std::int64_t> residuals;
  for (const Series half : {series.first(split), series.subspan(split)}) {
    const std::int64_t median = median_of(half);
    for (const std::int64_t value : half) residuals.push_back(value - median);
  }
  return residuals;
}

/// That chance moves the median of `after` values so far from that of `before` ones.
double probability(double change, std::size_t before, std::size_t after, std::span<const std::int64_t> residuals,
                   double usual_residual) {
  const auto m = static_cast<double>(before), n = static_cast<double>(after);
  const double least = 2 * std::exp(std::lgamma(m + 1) + std::lgamma(n + 1) - std::lgamma(m + n + 1));
  const double r = lag_correlation(residuals);
  const double deviation = 1.4826 * usual_residual;  // of a normal variable whose absolute median is this
  const double of_medians = deviation * std::sqrt(std::numbers::pi / 2 * (1 / m + 1 / n) * (1 + r) / (1 - r));
  return of_medians > 0 ? std::max(least, std::erfc(change / of_medians / std::numbers::sqrt2)) : least;
}

class Segmentation {
 public:
  Segmentation(Series series, const ChangeCriteria& criteria) : series_(series), criteria_(criteria) {
    find_between(0, series.size());
  }
  std::vector<ChangePoint> changes() && {
    for (std::size_t c = 0; c < changes_.size(); ++c) {
      const std::size_t begin = c > 0 ? changes_[c - 1].first : 0;
      const std::size_t end = c + 1 < changes_.size() ? changes_[c + 1].first : series_.size();
      changes_[c].before = median_of(series_.subspan(begin, changes_[c].first - begin));
      changes_[c].after = median_of(series_.subspan(changes_[c].first, end - changes_[c].first));
    }
    return std::move(changes_);
  }

 private:
  void find_between(std::size_t first, std::size_t end) {
    const Series part = series_.subspan(first, end - first);
    const std::size_t split = part.size() < 2 ? 0 : widest_split(part);
    if (split == 0) return;
    const std::vector<std::int64_t> residuals = residuals_of(part, split);
    std::vector<std::int64_t> sizes;
    for (const std::int64_t residual : residuals) sizes.push_back(std::abs(residual));
    std::sort(sizes.begin(), sizes.end());
    const auto before = static_cast<double>(median_of(part.first(split)));
    const double change = std::abs(static_cast<double>(median_of(part.subspan(split))) - before);
    const double p_value = static_cast<double>(series_.size()) *
                           probability(change, split, part.size() - split, residuals, percentile(sizes, 0.5));
    if (p_value > criteria_.false_alarm_rate || change <= 2 * percentile(sizes, 0.9) ||
        change < criteria_.least_change * before)
      return;
    find_between(first, first + split);
    changes_.push_back({first + split, 0, 0, p_value});
    find_between(first + split, end);
  }

  Series series_;
  const ChangeCriteria& criteria_;
  std::vector<ChangePoint> changes_;
};

}  // namespace

std::vector<ChangePoint> change_points(Series series, const ChangeCriteria& criteria) {
  return Segmentation(series, criteria).changes();
}

}  // namespace nsys_explain::analysis
