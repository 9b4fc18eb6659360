#include "nsys_explain/analysis/stragglers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "nsys_explain/analysis/findings.hpp"

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

struct Case {
  std::vector<RankSummary> ranks;
  Totals totals;
};

/// In bin b the rank culprit(b) of 8 costs the others `cost`.
Case made(const std::function<std::size_t(std::size_t)>& culprit, Nanoseconds cost) {
  Case c;
  c.ranks.resize(8);
  c.totals = make_totals(8, 1);
  for (std::size_t r = 0; r < 8; ++r) {
    c.ranks[r].trace_rank = static_cast<std::int32_t>(r);
    c.ranks[r].budget.window_ns = 1'000'000'000;
    c.totals.ranks[r].resolved = bin_count;
    c.totals.ranks[r].expected_last_ppb = bin_count * 125'000'000;
  }
  for (std::size_t b = 0; b < bin_count; ++b) {
    const std::size_t r = culprit(b);
    c.totals.caused_wait_ns[r * bin_count + b] = cost;
    RankTotals& t = c.totals.ranks[r];
    ++t.last_arrivals;
    ++t.own_last_arrivals;
    t.caused_wait_ns += cost;
    t.caused_lateness_ns += cost / 7;
    t.own_lateness_ns += cost / 7;
  }
  return c;
}

/// Somebody else each time, in no order.
std::size_t anybody(std::size_t bin) {
  return (bin * 2654435761U >> 7) % 8;
}

TEST(Stragglers, NamesTheRankThatIsLastTooOften) {
  const Case c = made([](std::size_t b) { return b % 4 == 3 ? anybody(b) : 5; }, 10'000'000);
  const auto stragglers = find_stragglers(c.ranks, c.totals);
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_rank, 5);
  EXPECT_GE(stragglers[0].last_share, 0.75);
  EXPECT_LT(stragglers[0].p_value, 1e-15);
  EXPECT_FALSE(stragglers[0].evidence.empty());
}

TEST(Stragglers, ChanceNamesNobody) {
  const Case c = made(anybody, 10'000'000);
  EXPECT_TRUE(find_stragglers(c.ranks, c.totals).empty());
}

TEST(Stragglers, ALatenessThatCostsNothingIsNotAVerdict) {
  const Case c = made([](std::size_t) { return 5; }, 100);
  EXPECT_TRUE(find_stragglers(c.ranks, c.totals).empty());
}

TEST(Stragglers, TwoCulpritsInOrderOfCost) {
  const Case c = made([](std::size_t b) { return b % 3 == 0 ? 6 : 1; }, 10'000'000);
  const auto stragglers = find_stragglers(c.ranks, c.totals);
  ASSERT_EQ(stragglers.size(), 2U);
  EXPECT_EQ(stragglers[0].trace_rank, 1);
  EXPECT_EQ(stragglers[1].trace_rank, 6);
}

TEST(Stragglers, NoResolvedInstanceNoVerdict) {
  Case c = made(anybody, 0);
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
