#include "nsys_explain/analysis/stragglers.hpp"

#include <gtest/gtest.h>

#include "nsys_explain/analysis/findings.hpp"

namespace nsys_explain::analysis {
namespace {

TEST(BinomialUpperTail, KnownValues) {
  EXPECT_DOUBLE_EQ(binomial_upper_tail(10, 0, 0.5), 1);
  EXPECT_NEAR(binomial_upper_tail(10, 10, 0.5), 1.0 / 1024, 1e-15);
  EXPECT_NEAR(binomial_upper_tail(10, 8, 0.5), 56.0 / 1024, 1e-14);  // 45 + 10 + 1 of 1024
  EXPECT_NEAR(binomial_upper_tail(4, 1, 0.25), 1 - 81.0 / 256, 1e-14);
  EXPECT_EQ(binomial_upper_tail(3, 4, 0.5), 0);
  EXPECT_LT(binomial_upper_tail(100'000, 30'000, 0.125), 1e-300);
  EXPECT_NEAR(binomial_upper_tail(100'000, 50'000, 0.5), 0.5013, 1e-3);
}

/// Lag totals of a series of zeros and ones, counted pair by pair.
std::vector<LagTotals> lags_of(const std::vector<int>& series) {
  std::vector<LagTotals> lags(lag_count);
  for (std::size_t lag = 0; lag < lag_count; ++lag) {
    for (std::size_t i = 0; i + lag + 1 < series.size(); ++i) {
      ++lags[lag].pairs;
      lags[lag].earlier_last += series[i];
      lags[lag].later_last += series[i + lag + 1];
      lags[lag].both_last += series[i] * series[i + lag + 1];
    }
  }
  return lags;
}

TEST(IndependentDraws, RunsAreWorthAboutOneDrawEach) {
  std::vector<int> series;
  for (int step : {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}) series.insert(series.end(), 8, step);
  const double draws = independent_draws(128, 24, lags_of(series));
  EXPECT_GT(draws, 16 * 0.6);
  EXPECT_LT(draws, 16 * 1.6);
}

TEST(IndependentDraws, ASeriesThatHardlyVariesCountsInFull) {
  EXPECT_DOUBLE_EQ(independent_draws(100, 100, lags_of(std::vector<int>(100, 1))), 100);
  std::vector<int> first_missed(100, 1);
  first_missed[0] = 0;
  EXPECT_DOUBLE_EQ(independent_draws(100, 99, lags_of(first_missed)), 100);
}

TEST(IndependentDraws, AlternationIsNotDependenceThatInflates) {
  std::vector<int> series;
  for (int i = 0; i < 100; ++i) series.push_back(i % 2);
  EXPECT_DOUBLE_EQ(independent_draws(100, 50, lags_of(series)), 100);
}

struct Case {
  std::vector<RankSummary> ranks;
  Totals totals;
};

/// `last[r]` own last arrivals of 800 resolved instances among 8 ranks, each costing the others `cost` in total.
Case made(const std::vector<std::int64_t>& last, Nanoseconds cost) {
  Case c;
  c.ranks.resize(last.size());
  c.totals = make_totals(last.size(), 1);
  for (std::size_t r = 0; r < last.size(); ++r) {
    c.ranks[r].trace_rank = static_cast<std::int32_t>(r);
    c.ranks[r].budget.window_ns = 1'000'000'000;
    RankTotals& t = c.totals.ranks[r];
    t.resolved = 800;
    t.expected_last_ppb = 800 * (1'000'000'000 / static_cast<std::int64_t>(last.size()));
    t.last_arrivals = t.own_last_arrivals = last[r];
    t.caused_wait_ns = cost * last[r];
    t.caused_lateness_ns = t.own_lateness_ns = cost / 8 * last[r];
  }
  return c;
}

TEST(Stragglers, NamesTheRankThatIsLastTooOften) {
  const Case c = made({50, 60, 40, 50, 50, 450, 50, 50}, 1'000'000);
  const auto stragglers = find_stragglers(c.ranks, c.totals);
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_rank, 5);
  EXPECT_NEAR(stragglers[0].last_share, 450.0 / 800, 1e-12);
  EXPECT_LT(stragglers[0].p_value, 1e-50);
  EXPECT_FALSE(stragglers[0].evidence.empty());
}

TEST(Stragglers, ChanceNamesNobody) {
  const Case c = made({100, 112, 95, 88, 103, 121, 90, 91}, 1'000'000);
  EXPECT_TRUE(find_stragglers(c.ranks, c.totals).empty());
}

TEST(Stragglers, ALatenessThatCostsNothingIsNotAVerdict) {
  const Case c = made({50, 60, 40, 50, 50, 450, 50, 50}, 100);
  EXPECT_TRUE(find_stragglers(c.ranks, c.totals).empty());
}

TEST(Stragglers, TwoCulpritsInOrderOfCost) {
  const Case c = made({20, 500, 20, 20, 20, 20, 180, 20}, 1'000'000);
  const auto stragglers = find_stragglers(c.ranks, c.totals);
  ASSERT_EQ(stragglers.size(), 2U);
  EXPECT_EQ(stragglers[0].trace_rank, 1);
  EXPECT_EQ(stragglers[1].trace_rank, 6);
}

TEST(Stragglers, NoResolvedInstanceNoVerdict) {
  Case c = made({0, 0}, 0);
  for (RankTotals& t : c.totals.ranks) t = {};
  EXPECT_TRUE(find_stragglers(c.ranks, c.totals).empty());
}

TEST(Findings, AnEmptyReportHasNone) {
  EXPECT_TRUE(find_problems({}).empty());
}

TEST(Findings, StateTheirNumbers) {
  JobReport report;
  report.ranks.resize(2);
  for (RankSummary& rank : report.ranks) {
    rank.budget.window_ns = 1'000'000'000;
    rank.budget.exposed_communication_ns = 300'000'000;
    rank.budget.idle_ns = 100'000'000;
  }
  const auto findings = find_problems(report);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "exposed-communication");
  EXPECT_EQ(findings[0].severity, FindingSeverity::high);
  EXPECT_NE(findings[0].title.find("30.0%"), std::string::npos);
  EXPECT_EQ(findings[1].id, "gpu-idle");
  EXPECT_EQ(findings[1].severity, FindingSeverity::medium);
  EXPECT_NE(findings[1].evidence[0].find("0.200 of 2.000 GPU-seconds"), std::string::npos);
}

}  // namespace
}  // namespace nsys_explain::analysis
