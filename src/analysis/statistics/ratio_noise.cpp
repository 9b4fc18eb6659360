#include "analysis/statistics/significance.hpp"

#include <cmath>
#include <numbers>

#include "analysis/statistics/statistics.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr int resamples = 2000;
constexpr double covered = 0.99;

/// Clusters tell their own spread from here on.
constexpr std::size_t fewest_clusters = 4;

std::size_t block_length(std::size_t samples) {
  return static_cast<std::size_t>(std::max(1.0, std::round(std::cbrt(samples))));
}

/// Sums of `length` consecutive values, going on at the front after the back.
std::vector<double> block_sums(const std::vector<double>& values, std::size_t length) {
  std::vector<double> sums(values.size());
  for (std::size_t first = 0; first < values.size(); ++first)
    for (std::size_t i = 0; i < length; ++i) sums[first] += values[(first + i) % values.size()];
  return sums;
}

bool comparable(const std::vector<double>& base, const std::vector<double>& current) {
  return base.size() >= fewest_samples && current.size() >= fewest_samples && mean(base) > 0 && mean(current) > 0;
}

/// Tail of each side of an interval that is one of `judged`.
double tail_of(std::size_t judged) {
  return (1 - covered) / 2 / static_cast<double>(std::max<std::size_t>(1, judged));
}

/// x with P(variable > x) = tail, from a decreasing function of x.
template <class Tail>
double invert(double tail, const Tail& tail_above) {
  double low = 0, high = 1;
  while (tail_above(high) > tail) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (tail_above(middle) > tail ? low : high) = middle;
  }
  return (low + high) / 2;
}

double normal_quantile(double tail) {
  return invert(tail, [](double x) { return std::erfc(x / std::numbers::sqrt2) / 2; });
}

/// How well the mean of a serially dependent series is known.
struct MeanError {
  double relative_variance = 0;  ///< squared relative standard error
  double degrees_of_freedom = 1;
};

MeanError mean_error(const std::vector<double>& values) {
  const std::size_t length = block_length(values.size());
  const std::vector<double> sums = block_sums(values, length);
  const double average = mean(sums);
  double squares = 0;
  for (const double sum : sums) squares += (sum - average) * (sum - average);
  const double blocks = static_cast<double>(values.size()) / static_cast<double>(length);
  const double degrees = std::max(1.0, blocks - 1);  // few blocks look more alike than they are
  return {squares / static_cast<double>(sums.size()) / degrees / (average * average), degrees};
}

/// Degrees of freedom of a sum of two errors (Welch and Satterthwaite), rounded down.
int degrees_of_freedom(const MeanError& a, const MeanError& b) {
  const auto part = [](const MeanError& one) {
    return one.relative_variance * one.relative_variance / one.degrees_of_freedom;
  };
  const double sum = a.relative_variance + b.relative_variance;
  return sum > 0 ? std::max(1, static_cast<int>(sum * sum / (part(a) + part(b)))) : 1;
}

RatioEstimate around(double ratio, double width) {
  return {ratio, ratio * std::exp(-width), ratio * std::exp(width)};
}

RankDurations sum_of(const DurationsByRank& ranks) {
  RankDurations sum;
  for (const auto& [number, rank] : ranks) {
    sum.count += rank.count;
    sum.total += rank.total;
    sum.squares += rank.squares;
  }
  return sum;
}

/// Standard error of the mean log ratio of the same ranks; empty where they differ or are too few to tell.
std::optional<double> error_between_ranks(const DurationsByRank& base, const DurationsByRank& current) {
  if (base.size() != current.size() || base.size() < fewest_clusters) return std::nullopt;
  std::vector<double> logs;
  for (auto before = base.begin(), after = current.begin(); before != base.end(); ++before, ++after) {
    const RankDurations &was = before->second, &is = after->second;
    if (before->first != after->first || was.total <= 0 || is.total <= 0) return std::nullopt;
    logs.push_back(std::log(is.total / is.count) - std::log(was.total / was.count));
  }
  const double average = mean(logs);
  double squares = 0;
  for (const double one : logs) squares += (one - average) * (one - average);
  const auto ranks = static_cast<double>(logs.size());
  return std::sqrt(squares / (ranks - 1) / ranks);
}

}  // namespace

double mean_half_width(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const std::size_t length = block_length(values.size());
  const std::vector<double> sums = block_sums(values, length);
  const double average = mean(sums);
  double squares = 0;
  for (const double sum : sums) squares += (sum - average) * (sum - average);
  const double blocks = static_cast<double>(values.size()) / static_cast<double>(length);
  const double degrees = std::max(1.0, blocks - 1);
  const double error = std::sqrt(squares / static_cast<double>(sums.size()) / degrees) / static_cast<double>(length);
  return error * student_quantile(0.025, static_cast<int>(degrees));
}

double student_tail(double t, int degrees_of_freedom) {
  const double angle = std::atan(t / std::sqrt(degrees_of_freedom));
  const double sine = std::sin(angle), cosine = std::cos(angle);
  const bool odd = degrees_of_freedom % 2 == 1;
  double term = odd ? cosine : 1, sum = degrees_of_freedom == 1 ? 0 : term;
  for (int k = odd ? 3 : 2; k <= degrees_of_freedom - 2; k += 2) {
    term *= cosine * cosine * (k - 1) / k;
    sum += term;
  }
  const double within = odd ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;  // P(|variable| < t)
  return (1 - within) / 2;
}

double student_quantile(double tail, int degrees_of_freedom) {
  return invert(tail, [&](double x) { return student_tail(x, degrees_of_freedom); });
}

std::optional<RatioEstimate> bootstrap_ratio(const std::vector<double>& base, const std::vector<double>& current) {
  if (!comparable(base, current)) return std::nullopt;
  Random random(base.size() * 1'000'003 + current.size());
  const auto resampled_means = [&](const std::vector<double>& values) {
    const std::size_t length = block_length(values.size());
    const std::size_t blocks = (values.size() + length - 1) / length;
    const std::vector<double> sums = block_sums(values, length);
    std::vector<double> means(resamples);
    for (double& one : means) {
      double sum = 0;
      for (std::size_t b = 0; b < blocks; ++b) sum += sums[random.below(sums.size())];
      one = sum / static_cast<double>(blocks * length);
    }
    return means;
  };
  const std::vector<double> base_means = resampled_means(base), current_means = resampled_means(current);
  std::vector<double> ratios(resamples);
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] = current_means[i] / base_means[i];
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double fraction) {
    return ratios[static_cast<std::size_t>(fraction * static_cast<double>(resamples - 1))];
  };
  return RatioEstimate{mean(current) / mean(base), at((1 - covered) / 2), at((1 + covered) / 2)};
}

std::optional<RatioEstimate> block_ratio(const std::vector<double>& base, const std::vector<double>& current,
                                         std::size_t judged) {
  if (!comparable(base, current)) return std::nullopt;
  const MeanError before = mean_error(base), after = mean_error(current);
  const double error = std::sqrt(before.relative_variance + after.relative_variance);
  const double quantile = student_quantile(tail_of(judged), degrees_of_freedom(before, after));
  return around(mean(current) / mean(base), quantile * error);
}

std::optional<RatioEstimate> ratio_of_means(const DurationsByRank& base, const DurationsByRank& current,
                                            std::size_t judged) {
  const RankDurations before = sum_of(base), after = sum_of(current);
  const auto enough = static_cast<double>(fewest_samples);
  if (before.count < enough || after.count < enough || before.total <= 0 || after.total <= 0) return std::nullopt;
  const auto relative = [](const RankDurations& sum) {
    const double average = sum.total / sum.count;
    return sum.squares / (sum.count - 1) / sum.count / (average * average);
  };
  const std::optional<double> between = error_between_ranks(base, current);
  const bool within_known = before.squares > 0 || after.squares > 0;
  if (!within_known && !between) return std::nullopt;
  double width = normal_quantile(tail_of(judged)) * std::sqrt(relative(before) + relative(after));
  if (between) width = std::max(width, student_quantile(tail_of(judged), static_cast<int>(base.size()) - 1) * *between);
  return around((after.total / after.count) / (before.total / before.count), width);
}

void widen(RatioEstimate& estimate, double between_runs, std::size_t runs) {
  if (runs < 3) return;
  const double low = std::log(estimate.ratio / estimate.low), high = std::log(estimate.high / estimate.ratio);
  const double extra = student_quantile(tail_of(1), static_cast<int>(runs) - 1) * between_runs;
  estimate.low = estimate.ratio * std::exp(-std::hypot(low, extra));
  estimate.high = estimate.ratio * std::exp(std::hypot(high, extra));
}

}  // namespace nsys_explain::analysis
