#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>

#include "model/hash.hpp"
#include "nsys_explain/model/comparison.hpp"

/// What is more than chance.
namespace nsys_explain::analysis {

// What chance does among equals: delays of rows (trace ranks, or places) over bins (steps), `row * bins + bin`.

/// For each rank a bound on the probability that it causes as much waiting as it does if all ranks were alike, that is,
/// if in every bin the ranks' shares were dealt out at random. `caused[r * bins + b]` is what rank r caused in bin b,
/// not below 0.
///
/// Chernoff's bound for the sum T_r over independent bins: P(T >= T_r) <= min over L > 0 of
/// exp(-L T_r) * product over b of (mean over s of exp(L x_sb)), taken over a grid of L. Free of assumptions on the
/// distribution and good for groups of any size: a single long pause cannot be significant (1/ranks at best), a delay
/// that recurs can. Where ranks * bins are few, the distribution of T itself (a convolution over the bins) gives the
/// probability, rounded upwards by a twentieth at most where it is below that: where k of n steps tell and the others
/// are noise, the bound is ranks^-k at best, and the probability that times the chance of the noise. A result is never
/// 0.
std::vector<double> caused_wait_p_values(std::span<const std::int64_t> caused, std::size_t ranks, std::size_t bins);

/// Adds up neighbouring bins until what happens in one says nothing about the next (mean lag-1 autocorrelation
/// about each rank's own mean below 0.1), but not below 16 bins. Returns the number of bins left.
std::size_t pool_bins(std::vector<std::int64_t>& caused, std::size_t ranks, std::size_t bins);

/// What one row has more than its likes: the probability that chance gave it so much, and how much it is, its sum
/// beyond the (lower) median of the other rows' sums.
struct Surplus {
  double p_value = 1;
  std::int64_t amount = 0;
};

/// The rows as they are, and with delays limited to what is typical for a bin's largest. Two culprits of a small job,
/// one with a few long delays and one with many short ones, hide behind each other in sums; and what recurs, however
/// short, proves nothing about the rare long delays that any rank has. `p_value`s share the error rate: limited delays
/// get a hundredth of it.
struct RowSurplus {
  Surplus any, limited;

  double p_value() const { return std::min(any.p_value, limited.p_value); }
};

/// By row; probabilities as those of caused_wait_p_values.
std::vector<RowSurplus> surplus_of_rows(const std::vector<std::int64_t>& rows, std::size_t count, std::size_t bins);

/// Likewise of the order alone: each row counts in a bin by how many have less there (Friedman's ranks, ties lowest).
/// One long delay in every bin, now of this row, now of that, drowns sums; who is always among the longest stays it. By
/// row; probabilities as those of caused_wait_p_values.
std::vector<double> order_p_values(std::span<const std::int64_t> rows, std::size_t count, std::size_t bins);

/// Bound on the probability that just these of `count` rows, were all alike, have as much together as they do: their
/// members need not stand out. Chernoff's bound for the sum over a set: drawing its members without putting them back
/// is at most as wild as with (Hoeffding 1963), so each adds its factor. What is below 0 counts as 0.
double p_value_of_set(std::span<const std::size_t> set, std::span<const std::int64_t> rows, std::size_t count,
                      std::size_t bins);

/// Two-sided probability that of `all` bins so many, or so few, go to one of two that are alike.
double sign_test(std::size_t one, std::size_t all);

/// Two-sided probability that two samples that are alike differ as much in the ranks of their values: Mann and
/// Whitney's U, by the normal approximation with its correction for ties. 1 where a sample is empty; never below the
/// probability of the most extreme order, so that tiny samples prove nothing.
double rank_sum_test(std::span<const std::int64_t> a, std::span<const std::int64_t> b);

// How well the ratio of two means is known. Intervals cover 99%; where many ratios are judged together, `judged` is
// how many, and each interval is widened so that all of them together cover 99% (Bonferroni).

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

/// SplitMix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  /// In [0, bound).
  std::size_t below(std::size_t bound) {
    state_ += golden_ratio;
    return static_cast<std::size_t>(mix_bits(state_) % bound);
  }

 private:
  std::uint64_t state_;
};

/// From `first` on values are larger, or smaller, than before.
struct ChangePoint {
  std::size_t first = 0;
  std::int64_t before = 0, after = 0;  ///< median since the change before it, and up to the one after it
  double p_value = 1;                  ///< bound on the probability of so large a change, anywhere, by chance
};

struct ChangeCriteria {
  double false_alarm_rate = 1e-3;
  double least_change = 0.05;  ///< of the value before
};

/// Where a series changes for good: in the shortest of many parts of it that show so (seeded intervals, Kovacs et al.
/// 2023; the narrowest over threshold, Baranowski et al. 2019), so that one change does not hide another. A part is
/// split where the ranks of the values before and after differ most (Pettitt 1979), and shows a change if chance moves
/// the median so far with at most `false_alarm_rate` (Bonferroni, over all places of all parts). What lasts makes
/// neighbours alike without a change: the variance of a median grows by (1 + r) / (1 - r), with r the correlation of
/// neighbours within the halves. However far they are apart, two halves prove no more than the order of their values
/// can. A change within what nine tenths of neighbours differ anyway is none. Ascending; values are above 0.
std::vector<ChangePoint> change_points(std::span<const std::int64_t> series, const ChangeCriteria& criteria = {});

}  // namespace nsys_explain::analysis
