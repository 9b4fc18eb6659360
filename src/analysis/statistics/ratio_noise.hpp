#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "nsys_explain/model/comparison.hpp"

/// How well the ratio of two means is known. Intervals cover 99%; where many ratios are judged together, `judged` is
/// how many, and each interval is widened so that all of them together cover 99% (Bonferroni).
namespace nsys_explain::analysis {

/// Fewer samples than this on either side tell nothing about noise.
inline constexpr std::size_t fewest_samples = 8;

/// Current over base. Circular block bootstrap of both series (Politis and Romano 1992) with blocks of about n^(1/3)
/// consecutive samples, so that drifts and periodic slow steps widen the interval as they should; deterministic.
/// Empty where a series has fewer than 8 samples or a mean that is not positive.
std::optional<RatioEstimate> bootstrap_ratio(const std::vector<double>& base, const std::vector<double>& current);

/// As bootstrap_ratio, with the standard error that resampling converges to and Student's t: for many ratios at
/// once, whose quantiles no resampling reaches.
std::optional<RatioEstimate> block_ratio(const std::vector<double>& base, const std::vector<double>& current,
                                         std::size_t judged);

/// Half the 95% interval of the mean of a series, by the standard error that resampling its blocks converges to; 0
/// where there are fewer than two.
double mean_half_width(const std::vector<double>& values);

/// Durations of one kind of thing on one trace rank.
struct RankDurations {
  double count = 0;
  double total = 0;
  double squares = 0;  ///< sum of squared deviations from the mean; 0: not known
};

using DurationsByRank = std::map<std::int64_t, RankDurations>;

/// Ratio of the means over all executions. Executions of one rank count as independent, ranks as clusters: both
/// standard errors are worked out, the second from the ratios of the same rank in both runs (where both have the same
/// ranks, 4 or more), and the wider interval counts. Empty where there are too few executions or neither spread is
/// known.
std::optional<RatioEstimate> ratio_of_means(const DurationsByRank& base, const DurationsByRank& current,
                                            std::size_t judged);

/// Widens an interval by how much means of whole runs differ among themselves: `between_runs` is their relative
/// standard deviation over `runs` runs; Student's t, as they are few. Does nothing for fewer than three.
void widen(RatioEstimate& estimate, double between_runs, std::size_t runs);

/// Probability that a Student variable exceeds t >= 0, by the finite series of Abramowitz and Stegun 26.7.3 and 26.7.4;
/// one below 1e-15 is not told from 0.
double student_tail(double t, int degrees_of_freedom);

/// x that a Student variable exceeds with probability `tail` (0 < tail < 0.5).
double student_quantile(double tail, int degrees_of_freedom);

}  // namespace nsys_explain::analysis
