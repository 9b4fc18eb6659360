#include "analysis/statistics/significance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace nsys_explain::analysis {
namespace {

TEST(CausedWait, ARankThatCausesItInEveryBinIsOneInRanksToTheBins) {
  // 4 ranks, 10 bins, all of it by rank 2: the bound tends to (1/4)^10.
  std::vector<std::int64_t> caused(40, 0);
  for (std::size_t b = 0; b < 10; ++b) caused[2 * 10 + b] = 1000;
  const auto p = caused_wait_p_values(caused, 4, 10);
  EXPECT_NEAR(p[2] / std::pow(0.25, 10), 1, 1e-6);
  EXPECT_DOUBLE_EQ(p[0], 1);
}

TEST(CausedWait, OneLongPauseIsNoMoreThanOneInRanks) {
  std::vector<std::int64_t> caused(8 * 16, 10);
  caused[5 * 16 + 3] = 1'000'000'000;
  EXPECT_GE(caused_wait_p_values(caused, 8, 16)[5], 1.0 / 8 - 1e-12);
}

TEST(CausedWait, BoundsTheTrueProbability) {
  // One unit per bin goes to one of 4 ranks at random: the sum is binomial(16, 1/4).
  // P(at least 10) = 0.001644..., by summation of the binomial.
  std::vector<std::int64_t> caused(4 * 16, 0);
  for (std::size_t b = 0; b < 16; ++b) caused[(b < 10 ? 0 : 1 + b % 3) * 16 + b] = 1;
  const double p = caused_wait_p_values(caused, 4, 16)[0];
  EXPECT_GE(p, 0.001644);
  EXPECT_LE(p, 0.02);
}

TEST(CausedWait, IsABoundAndSoNeverZero) {
  std::vector<std::int64_t> caused(16 * 512, 0);
  std::fill_n(caused.begin(), 512, 1000);
  const double p = caused_wait_p_values(caused, 16, 512)[0];  // 16^-512
  EXPECT_GT(p, 0);
  EXPECT_LT(p, 1e-300);
}

TEST(CausedWait, NothingCausedNothingClaimed) {
  for (const double p : caused_wait_p_values(std::vector<std::int64_t>(32, 0), 2, 16)) EXPECT_DOUBLE_EQ(p, 1);
}

TEST(PoolBins, JoinsBinsThatDependOnEachOther) {
  // Delays four bins long, at no fixed distance.
  std::vector<std::int64_t> caused(2 * 64, 0);
  for (std::size_t start : {0, 12, 20, 40}) std::fill_n(caused.begin() + static_cast<std::ptrdiff_t>(start), 4, 100);
  EXPECT_EQ(pool_bins(caused, 2, 64), 16U);
  EXPECT_EQ(caused[0], 400);
  EXPECT_EQ(caused.size(), 32U);
  std::vector<std::int64_t> steady(2 * 64, 7);
  EXPECT_EQ(pool_bins(steady, 2, 64), 64U) << "a constant lateness is no dependence in time";
}

/// Values that look like delays in milliseconds: a few long ones, and noise. In three of four bins the first rank has
/// the longest.
std::vector<std::int64_t> made_delays(std::size_t ranks, std::size_t bins, std::uint32_t seed) {
  std::vector<std::int64_t> delays(ranks * bins);
  for (std::int64_t& delay : delays) {
    seed = seed * 1664525U + 1013904223U;
    delay = seed >> 29 == 0 ? 4'000'000 + (seed >> 12) : seed >> 20;
  }
  for (std::size_t b = 0; b < bins; ++b)
    for (std::size_t r = 1; r < ranks && b % 4 != 0; ++r)
      if (delays[r * bins + b] > delays[b]) std::swap(delays[r * bins + b], delays[b]);
  return delays;
}

/// The sums of the first rank over all ways to deal the values of every bin out to the ranks, ascending.
std::vector<std::int64_t> all_sums(const std::vector<std::int64_t>& delays, std::size_t ranks, std::size_t bins) {
  std::vector<std::int64_t> sums{0};
  for (std::size_t b = 0; b < bins; ++b) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t sum : sums)
      for (std::size_t r = 0; r < ranks; ++r) longer.push_back(sum + delays[r * bins + b]);
    sums = std::move(longer);
  }
  std::sort(sums.begin(), sums.end());
  return sums;
}

TEST(CausedWait, OfAFewRanksAndBinsIsTheProbabilityByCounting) {
  int compared = 0;
  for (const auto& [ranks, bins] : {std::pair<std::size_t, std::size_t>{2, 14}, {3, 9}, {4, 7}}) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      const auto delays = made_delays(ranks, bins, seed);
      const auto sums = all_sums(delays, ranks, bins);
      const auto p = caused_wait_p_values(delays, ranks, bins);
      for (std::size_t r = 0; r < ranks; ++r) {
        const auto row = delays.begin() + static_cast<std::ptrdiff_t>(r * bins);
        const std::int64_t own = std::accumulate(row, row + static_cast<std::ptrdiff_t>(bins), std::int64_t{0});
        const auto as_large = sums.end() - std::lower_bound(sums.begin(), sums.end(), own);
        const double counted = static_cast<double>(as_large) / static_cast<double>(sums.size());
        EXPECT_GE(p[r], counted * (1 - 1e-9)) << "never below";
        if (counted > 0.05) continue;  // what chance does often is not counted to the last digit
        // Sums that are smaller by the rounding, at most a unit per bin, may count.
        std::int64_t most = 0;
        for (std::size_t b = 0; b < bins; ++b) {
          std::int64_t largest = 0;
          for (std::size_t s = 0; s < ranks; ++s) largest = std::max(largest, delays[s * bins + b]);
          most += largest;
        }
        const std::int64_t slack = static_cast<std::int64_t>(bins + 1) * (most / (1 << 14) + 1);
        const auto nearly = sums.end() - std::lower_bound(sums.begin(), sums.end(), own - slack);
        const double rounded = static_cast<double>(nearly) / static_cast<double>(sums.size());
        EXPECT_LE(p[r], std::max(1.05 * counted, rounded) * (1 + 1e-9));
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 30);
}

TEST(CausedWait, NoStepsProveNothing) {
  EXPECT_EQ(caused_wait_p_values({}, 2, 0), (std::vector<double>{1, 1}));
}

TEST(CausedWait, KOfNStepsOfOneOfTwoAreTwoToTheMinusKTimesTheNoise) {
  // Nine steps tell; in the other 22 each rank is ahead as often as the other, by as little: a chance of about a half.
  std::vector<std::int64_t> caused(2 * 31, 0);
  for (std::size_t b = 0; b < 31; ++b) caused[(b < 9 ? 0 : b % 2) * 31 + b] = b < 9 ? 10'000'000 : 20'000;
  const auto p = caused_wait_p_values(caused, 2, 31);
  // Of 22 fair coins 11 or more are heads with 0.5841; Chernoff's bound alone gives 1.
  EXPECT_NEAR(p[0], std::pow(0.5, 9) * 0.5841, std::pow(0.5, 9) * 1e-3);
}

TEST(RankSumTest, TellsLargeFromSmall) {
  std::vector<std::int64_t> small(26), large(14);
  std::iota(small.begin(), small.end(), 1'000'000);
  std::iota(large.begin(), large.end(), 8'000'000);
  EXPECT_LT(rank_sum_test(small, large), 1e-6);
  EXPECT_DOUBLE_EQ(rank_sum_test(small, large), rank_sum_test(large, small));
  // Every value of one lies between two of the other.
  std::vector<std::int64_t> even, odd;
  for (std::int64_t i = 0; i < 20; ++i) (i % 2 == 0 ? even : odd).push_back(i);
  EXPECT_GT(rank_sum_test(even, odd), 0.5);
}

TEST(RankSumTest, OfFiveAndFiveIsNearTheTable) {
  // Separate samples of five: 2 of 252 orders are as extreme.
  const std::vector<std::int64_t> low{1, 2, 3, 4, 5}, high{6, 7, 8, 9, 10};
  EXPECT_GE(rank_sum_test(low, high), 2.0 / 252);
  EXPECT_LT(rank_sum_test(low, high), 0.01);
}

TEST(RankSumTest, TinyOrEqualSamplesProveNothing) {
  EXPECT_DOUBLE_EQ(rank_sum_test({}, std::vector<std::int64_t>{1, 2}), 1);
  EXPECT_DOUBLE_EQ(rank_sum_test(std::vector<std::int64_t>{1}, std::vector<std::int64_t>{2}), 1);
  EXPECT_GE(rank_sum_test(std::vector<std::int64_t>{1, 2}, std::vector<std::int64_t>{8, 9}), 1.0 / 3 - 1e-12);
  EXPECT_DOUBLE_EQ(rank_sum_test(std::vector<std::int64_t>(9, 7), std::vector<std::int64_t>(9, 7)), 1);
}

TEST(Surplus, IsBeyondTheMedianOfTheOtherRows) {
  // Limited to 5, as in most bins, the long delay of the second row is like any.
  const auto surplus = surplus_of_rows({5, 5, 5, 5, 0, 0, 0, 40, 1, 1, 1, 1}, 3, 4);
  ASSERT_EQ(surplus.size(), 3U);
  const auto amounts = [&](auto part) {
    return std::vector<std::int64_t>{part(surplus[0]).amount, part(surplus[1]).amount, part(surplus[2]).amount};
  };
  EXPECT_EQ(amounts([](const RowSurplus& row) { return row.any; }), (std::vector<std::int64_t>{16, 36, -16}));
  EXPECT_EQ(amounts([](const RowSurplus& row) { return row.limited; }), (std::vector<std::int64_t>{16, 1, -1}));
  EXPECT_EQ(surplus_of_rows({7, 7}, 1, 2)[0].any.amount, 14) << "nobody to compare with";
}

TEST(OrderPValues, WhoIsAlwaysAmongTheLongestStandsOutOfLongDelaysThatGoRound) {
  // Of 8 rows the third has 9 in each of 32 bins, and one after the other has 90 more.
  std::vector<std::int64_t> rows(8 * 32, 0);
  for (std::size_t b = 0; b < 32; ++b) {
    rows[2 * 32 + b] += 9;
    rows[b % 8 * 32 + b] += 90;
  }
  EXPECT_GT(caused_wait_p_values(rows, 8, 32)[2], 0.01) << "4 * 99 + 28 * 9 is 60% more than what each other row has";
  const std::vector<double> order = order_p_values(rows, 8, 32);
  // It is the longest in 4 bins and the second in 28; with a probability of a quarter a row is one of these.
  EXPECT_LT(order[2], 1e-12);
  EXPECT_GT(order[2], std::pow(0.125, 32));
  for (const std::size_t other : {0, 1, 3, 4, 5, 6, 7}) EXPECT_GT(order[other], 0.5);
}

TEST(OrderPValues, OfRowsThatAreAlikeNothingIsImprobable) {
  EXPECT_THAT(order_p_values(std::vector<std::int64_t>(4 * 16, 5), 4, 16), ::testing::Each(1.0));
}

TEST(OrderPValues, OfTwoByHand) {
  // The first is longer in all of three bins, by little or much: one of eight.
  EXPECT_NEAR(order_p_values({{5, 1, 900, 4, 0, 7}}, 2, 3)[0], 0.125, 0.01);
}

}  // namespace
}  // namespace nsys_explain::analysis
