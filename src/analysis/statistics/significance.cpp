#include "analysis/statistics/significance.hpp"

#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>
#include <numeric>

#include "nsys_explain/model/algorithms.hpp"

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

/// Sums of powers that are squared again and again: exponentials of the weighted distances of a bin's values from its
/// largest. Zeros, which most values are, share one power. Of so many lanes, as vectors of any machine are.
class BinPowers {
 public:
  /// `distances`: not above 0; `of_zero`: that of each of `zeros` more values.
  BinPowers(std::vector<double> distances, double of_zero, std::size_t zeros)
      : distances_(std::move(distances)), of_zero_(of_zero), zeros_(static_cast<double>(zeros)) {
    powers_.resize((distances_.size() + lanes - 1) / lanes * lanes);
  }

  void start(double weight) {
    std::transform(distances_.begin(), distances_.end(), powers_.begin(),
                   [&](double distance) { return std::exp(weight * distance); });
    std::fill(powers_.begin() + std::ssize(distances_), powers_.end(), 0.0);
    zero_power_ = std::exp(weight * of_zero_);
  }

  /// The sum of the powers, which are squared. What is too small to change a sum that holds a 1 becomes 0 before it is
  /// too small for a double, where arithmetic is slow.
  double add_and_square() {
    constexpr double tiny = 1e-150;
    double sums[lanes] = {};
    for (std::size_t i = 0; i < powers_.size(); i += lanes) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const double power = powers_[i + lane];
        sums[lane] += power;
        powers_[i + lane] = power < tiny ? 0.0 : power * power;
      }
    }
    const double sum = std::accumulate(std::begin(sums), std::end(sums), zeros_ * zero_power_);
    zero_power_ *= zero_power_;
    return sum;
  }

 private:
  static constexpr std::size_t lanes = 8;
  std::vector<double> distances_;
  double of_zero_, zeros_, zero_power_ = 1;
  std::vector<double> powers_;
};

/// Chernoff's bound of the header. A weight's exponentials are the squares of those of half of it, so few are computed;
/// they are of distances from the largest value of the bin and so do not overflow.
std::vector<double> bounds_of_sums(std::span<const std::int64_t> caused, std::size_t ranks, std::size_t bins) {
  constexpr int parts_of_octave = 6;
  constexpr std::size_t octaves = 17;  // as fine and as wide as the grid above
  std::vector<double> log_p(ranks, 0);
  std::int64_t largest = 0;
  for (const std::int64_t value : caused) largest = std::max(largest, value);
  if (largest > 0) {
    const auto scaled = [&](std::size_t r, std::size_t b) {
      return static_cast<double>(caused[r * bins + b]) / static_cast<double>(largest);
    };
    std::vector<double> sums(ranks, 0), highest(bins, 0);
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t b = 0; b < bins; ++b) {
        sums[r] += scaled(r, b);
        highest[b] = std::max(highest[b], scaled(r, b));
      }
    }
    std::vector<std::vector<double>> distances(bins);
    for (std::size_t r = 0; r < ranks; ++r)
      for (std::size_t b = 0; b < bins; ++b)
        if (caused[r * bins + b] > 0) distances[b].push_back(scaled(r, b) - highest[b]);
    std::vector<BinPowers> powers;
    for (std::size_t b = 0; b < bins; ++b) {
      const std::size_t zeros = ranks - distances[b].size();
      powers.emplace_back(std::move(distances[b]), -highest[b], zeros);
    }
    const double largest_sum = *std::max_element(sums.begin(), sums.end());
    for (int part = 0; part < parts_of_octave; ++part) {
      double weight = grid_value(0) * std::exp2(static_cast<double>(part) / parts_of_octave);
      double latest = 0;  // bound of the largest sum
      for (BinPowers& of_bin : powers) of_bin.start(weight);
      for (std::size_t octave = 0; octave < octaves; ++octave, weight *= 2) {
        double log_moments = 0;
        for (std::size_t b = 0; b < bins; ++b)
          log_moments += weight * highest[b] + std::log(powers[b].add_and_square() / static_cast<double>(ranks));
        // Convex in the weight: once it grows it goes on growing, and that of a smaller sum does so sooner.
        if (log_moments - weight * largest_sum > latest) break;
        latest = log_moments - weight * largest_sum;
        for (std::size_t r = 0; r < ranks; ++r) log_p[r] = std::min(log_p[r], log_moments - weight * sums[r]);
      }
    }
  }
  // As small as chance may be: a probability that a double cannot hold is not 0.
  for (double& value : log_p) value = std::max(std::exp(value), std::numeric_limits<double>::min());
  return log_p;
}

/// The distribution of the header's T, on a grid so fine that rounding hardly counts: draws are rounded up and what is
/// compared with them is rounded up with them, so a probability comes out too large, if anything.
class SumDistribution {
 public:
  /// `work`: additions that it may cost.
  SumDistribution(std::span<const std::int64_t> caused, std::size_t ranks, std::size_t bins, std::int64_t work)
      : bins_(bins) {
    std::int64_t most = 0;
    std::vector<std::vector<std::int64_t>> draws(bins);
    for (std::size_t b = 0; b < bins; ++b) {
      for (std::size_t r = 0; r < ranks; ++r) draws[b].push_back(caused[r * bins + b]);
      std::sort(draws[b].begin(), draws[b].end());
      most += draws[b].back();
    }
    unit_ = std::max<std::int64_t>(1, rounded_up(most, work / std::max<std::int64_t>(1, std::ssize(caused))));
    probability_.assign(1, 1.0);
    for (const std::vector<std::int64_t>& of_bin : draws) {
      std::vector<double> next(probability_.size() + static_cast<std::size_t>(rounded_up(of_bin.back(), unit_)), 0);
      for (std::size_t first = 0, end = 0; first < of_bin.size(); first = end) {
        while (end < of_bin.size() && of_bin[end] == of_bin[first]) ++end;
        const double part = static_cast<double>(end - first) / static_cast<double>(ranks);
        const auto shift = static_cast<std::size_t>(rounded_up(of_bin[first], unit_));
        for (std::size_t i = 0; i < probability_.size(); ++i) next[i + shift] += part * probability_[i];
      }
      probability_ = std::move(next);
    }
    tail_.assign(probability_.size() + 1, 0);  // from the smallest on
    for (std::size_t i = probability_.size(); i-- > 0;) tail_[i] = tail_[i + 1] + probability_[i];
  }
  /// Not below P(T >= sum).
  double most(std::int64_t sum) const { return tail(static_cast<std::size_t>(rounded_up(sum, unit_))); }
  /// Not above it: all draws together were rounded up by less than a unit for each bin.
  double least(std::int64_t sum) const { return tail(static_cast<std::size_t>(rounded_up(sum, unit_)) + bins_); }

 private:
  static std::int64_t rounded_up(std::int64_t value, std::int64_t unit) { return value / unit + (value % unit > 0); }
  double tail(std::size_t units) const { return std::min(1.0, tail_[std::min(units, tail_.size() - 1)]); }

  std::size_t bins_ = 0;
  std::int64_t unit_ = 1;
  std::vector<double> probability_;  ///< of each sum, in units
  std::vector<double> tail_;         ///< of at least so much; one entry more
};

/// For each sum a bound on P(T >= sum), within a twentieth of it where chance is improbable, but not past doubt, and
/// the grid can be made fine enough. Most jobs are clean or show a clear culprit, and a coarse grid tells that.
std::vector<double> tails_of_sums(std::span<const std::int64_t> caused, std::size_t ranks, std::size_t bins,
                                  std::span<const std::int64_t> sums) {
  constexpr double improbable = 0.05, certain = 1e-9, close_enough = 1.05;
  constexpr std::int64_t least_work = 1 << 17, most_work = 1 << 23;
  std::vector<double> tails;
  for (std::int64_t work = least_work; work <= most_work; work *= 8) {
    const SumDistribution distribution(caused, ranks, bins, work);
    tails.clear();
    bool is_close = true;
    for (const std::int64_t sum : sums) {
      tails.push_back(distribution.most(sum));
      const double least = distribution.least(sum);
      is_close = is_close && (least >= improbable || tails.back() <= certain || tails.back() <= close_enough * least);
    }
    if (is_close) break;
  }
  return tails;
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
  std::vector<double> p_values = bounds_of_sums(caused, ranks, bins);
  constexpr std::size_t most_draws = 1024;  // beyond, units would be coarse, and it matters least
  if (caused.size() > most_draws) return p_values;
  std::vector<std::int64_t> sums;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto row = caused.subspan(r * bins, bins);
    sums.push_back(std::accumulate(row.begin(), row.end(), std::int64_t{0}));
  }
  const std::vector<double> tails = tails_of_sums(caused, ranks, bins, sums);
  for (std::size_t r = 0; r < ranks; ++r)
    p_values[r] = std::max(std::min(p_values[r], tails[r]), std::numeric_limits<double>::min());
  return p_values;
}

namespace {

/// By row; probabilities are divided by `part` of the error rate.
std::vector<Surplus> surplus_of_sums(std::span<const std::int64_t> rows, std::size_t count, std::size_t bins,
                                     double part) {
  const std::vector<double> p_values = caused_wait_p_values(rows, count, bins);
  std::vector<std::int64_t> sums;
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = rows.subspan(i * bins, bins);
    sums.push_back(std::accumulate(row.begin(), row.end(), std::int64_t{0}));
  }
  std::vector<std::int64_t> sorted = sums;
  std::sort(sorted.begin(), sorted.end());
  std::vector<Surplus> surplus;
  for (std::size_t i = 0; i < count; ++i) {
    // The lower median of the others: their order is the sorted one, without this row's sum.
    std::size_t middle = count > 2 ? (count - 2) / 2 : 0;
    if (count > 1 && sums[i] <= sorted[middle]) ++middle;
    surplus.push_back({std::min(1.0, p_values[i] / part), count > 1 ? sums[i] - sorted[middle] : sums[i]});
  }
  return surplus;
}

}  // namespace

std::vector<RowSurplus> surplus_of_rows(const std::vector<std::int64_t>& rows, std::size_t count, std::size_t bins) {
  constexpr double part_of_limited = 0.01;
  const std::vector<Surplus> of_any = surplus_of_sums(rows, count, bins, 1 - part_of_limited);
  const std::vector<Surplus> of_limited = surplus_of_sums(limited(rows, bins), count, bins, part_of_limited);
  std::vector<RowSurplus> surplus;
  for (std::size_t i = 0; i < count; ++i) surplus.push_back({of_any[i], of_limited[i]});
  return surplus;
}

std::vector<double> order_p_values(std::span<const std::int64_t> rows, std::size_t count, std::size_t bins) {
  std::vector<std::int64_t> less(rows.size(), 0), of_bin(count);
  for (std::size_t b = 0; b < bins; ++b) {
    for (std::size_t i = 0; i < count; ++i) of_bin[i] = rows[i * bins + b];
    std::sort(of_bin.begin(), of_bin.end());
    for (std::size_t i = 0; i < count; ++i)
      less[i * bins + b] = std::lower_bound(of_bin.begin(), of_bin.end(), rows[i * bins + b]) - of_bin.begin();
  }
  return caused_wait_p_values(less, count, bins);
}

double p_value_of_set(std::span<const std::size_t> set, std::span<const std::int64_t> rows, std::size_t count,
                      std::size_t bins) {
  std::int64_t largest = 1;
  for (const std::int64_t value : rows) largest = std::max(largest, value);
  const auto value_of = [&](std::size_t rank, std::size_t bin) {
    const std::int64_t excess = std::max<std::int64_t>(0, rows[rank * bins + bin]);
    return static_cast<double>(excess) / static_cast<double>(largest);
  };
  double sum = 0;
  for (const std::size_t r : set)
    for (std::size_t b = 0; b < bins; ++b) sum += value_of(r, b);
  double log_p = 0;
  for (int point = 0; point < grid_points; ++point) {
    const double weight = std::min(grid_value(point), 500.0);  // beyond, a moment no longer fits a double
    double log_moments = 0;
    for (std::size_t b = 0; b < bins; ++b) {
      double moments = 0;
      for (std::size_t r = 0; r < count; ++r) moments += std::exp(weight * value_of(r, b));
      log_moments += std::log(moments / static_cast<double>(count));
    }
    log_p = std::min(log_p, static_cast<double>(set.size()) * log_moments - weight * sum);
  }
  return std::max(std::exp(log_p), std::numeric_limits<double>::min());
}

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

double rank_sum_test(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  if (a.empty() || b.empty()) return 1;
  std::vector<std::int64_t> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  std::sort(all.begin(), all.end());
  const auto m = static_cast<double>(a.size()), n = static_cast<double>(b.size()), count = m + n;
  double ties = 0;
  for (auto first = all.begin(), end = first; first != all.end(); first = end) {
    end = std::upper_bound(first, all.end(), *first);
    const auto tied = static_cast<double>(end - first);
    ties += tied * tied * tied - tied;
  }
  double rank_sum = 0;  // equal values share the mean of their ranks
  for (const std::int64_t value : a) {
    const auto [first, end] = std::equal_range(all.begin(), all.end(), value);
    rank_sum += static_cast<double>((first - all.begin()) + (end - all.begin()) + 1) / 2;
  }
  const double variance = m * n / 12 * (count + 1 - ties / (count * (count - 1)));
  if (variance <= 0) return 1;
  const double deviation = std::abs(rank_sum - m * (count + 1) / 2);
  const double least = 2 * std::exp(std::lgamma(m + 1) + std::lgamma(n + 1) - std::lgamma(count + 1));
  return std::min(1.0, std::max(least, std::erfc(deviation / std::sqrt(2 * variance))));
}

}  // namespace nsys_explain::analysis
