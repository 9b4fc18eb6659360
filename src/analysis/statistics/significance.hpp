#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// What chance does among equals: delays of rows (trace ranks, or places) over bins (steps), `row * bins + bin`.
namespace nsys_explain::analysis {

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

}  // namespace nsys_explain::analysis
