#include "nsys_explain/analysis/stragglers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "nsys_explain/analysis/findings.hpp"
#include "nsys_explain/analysis/significance.hpp"

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

constexpr std::size_t case_bins = 64;

struct Case {
  std::vector<RankSummary> ranks;
  Totals totals;
  JobDelays delays;

  explicit Case(std::size_t count) : totals(make_totals(count)) {
    ranks.resize(count);
    delays.bins = case_bins;
    delays.by_step = true;
    delays.role.assign(count, 7);
    delays.speed.resize(count);
    delays.cost_ns.assign(count * case_bins, 0);
    delays.excess_work_ns.assign(count * case_bins, 0);
    delays.slow_transfer_ns.assign(count, 0);
    for (std::size_t r = 0; r < count; ++r) {
      ranks[r].trace_rank = static_cast<std::int32_t>(r);
      ranks[r].budget.window_ns = 1'000'000'000;
    }
  }

  void delay(std::size_t rank, std::size_t bin, Nanoseconds cost) {
    delays.cost_ns[rank * case_bins + bin] += cost;
    delays.excess_work_ns[rank * case_bins + bin] += cost / 7;
    ranks[rank].delay_cost_ns += cost;
    RankTotals& t = totals.ranks[rank];
    ++t.resolved;
    ++t.last_arrivals;
    ++t.own_last_arrivals;
    t.caused_wait_ns += cost;
  }

  std::vector<Straggler> stragglers(std::span<const Grouping> groupings = {}) const {
    return find_stragglers(ranks, totals, delays, groupings).stragglers;
  }
};

/// In bin b the rank culprit(b) of 8 costs the others `cost`.
Case made(const std::function<std::size_t(std::size_t)>& culprit, Nanoseconds cost) {
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) c.delay(culprit(b), b, cost);
  return c;
}

/// Somebody else each time, in no order.
std::size_t anybody(std::size_t bin) {
  return (bin * 2654435761U >> 7) % 8;
}

TEST(Stragglers, NamesTheRankThatIsLastTooOften) {
  const auto stragglers = made([](std::size_t b) { return b % 4 == 3 ? anybody(b) : 5; }, 10'000'000).stragglers();
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_rank, 5);
  EXPECT_EQ(stragglers[0].level, Level::gpu);
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{5}));
  EXPECT_LT(stragglers[0].p_value, 1e-15);
  EXPECT_FALSE(stragglers[0].evidence.empty());
  // 48 to 56 bins of 10 ms, of 8 GPUs for 1 s each.
  EXPECT_NEAR(stragglers[0].cost_share, 0.065, 0.006);
  EXPECT_NEAR(stragglers[0].gpu_hours_per_day, stragglers[0].cost_share * 24 * 8, 1e-9);
}

TEST(Stragglers, ChanceNamesNobody) {
  EXPECT_TRUE(made(anybody, 10'000'000).stragglers().empty());
}

TEST(Stragglers, ALatenessThatCostsNothingIsNotAVerdict) {
  EXPECT_TRUE(made([](std::size_t) { return 5; }, 100).stragglers().empty());
}

TEST(Stragglers, TwoCulpritsInOrderOfCost) {
  const auto stragglers = made([](std::size_t b) { return b % 3 == 0 ? 6 : 1; }, 10'000'000).stragglers();
  ASSERT_EQ(stragglers.size(), 2U);
  EXPECT_EQ(stragglers[0].trace_rank, 1);
  EXPECT_EQ(stragglers[1].trace_rank, 6);
}

TEST(Stragglers, TheSmallerOfTwoThatActTogetherIsSeen) {
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) {
    c.delay(3, b, 50'000'000);
    c.delay(6, b, 8'000'000 + static_cast<Nanoseconds>(b) * 10'000);
    c.delay(anybody(b), b, 500'000);
  }
  const auto stragglers = c.stragglers();
  ASSERT_EQ(stragglers.size(), 2U);
  EXPECT_EQ(stragglers[0].trace_rank, 3);
  EXPECT_EQ(stragglers[1].trace_rank, 6);
}

TEST(Stragglers, FewLongDelaysOfOneAndManyShortOnesOfAnotherDoNotHideEachOther) {
  // Four ranks: one is late in three of four steps, another in the fourth and then three times as much. By sums alone a
  // rank that draws half of all long delays comes near to either.
  Case c(4);
  for (std::size_t b = 0; b < 40; ++b) c.delay(b % 4 == 0 ? 2 : 1, b, b % 4 == 0 ? 74'000'000 : 21'000'000);
  const auto stragglers = c.stragglers();
  ASSERT_EQ(stragglers.size(), 2U);
  EXPECT_EQ(stragglers[0].trace_rank, 2);
  EXPECT_EQ(stragglers[1].trace_rank, 1);
}

TEST(Stragglers, ASlowGpuNeedsNoLikesToBeNamed) {
  // Nobody has the third one's role; only kernels that it shares with others tell that its GPU is slow.
  Case c = made([](std::size_t) { return 2; }, 10'000'000);
  c.delays.role[2] = 8;
  EXPECT_TRUE(c.stragglers().empty()) << "cost alone does not tell: it may be the schedule";
  c.delays.speed[2] = {2, 12, 1.2, 1e-9, true};
  const auto stragglers = c.stragglers();
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_rank, 2);
  EXPECT_DOUBLE_EQ(stragglers[0].p_value, 1e-9);
  EXPECT_NE(stragglers[0].evidence.back().find("1.200 times as long"), std::string::npos);
  c.ranks[2].delay_cost_ns = 1000;
  EXPECT_TRUE(c.stragglers().empty()) << "slow, but late for nobody";
}

TEST(Stragglers, RanksAreComparedWithThoseOfTheirRole) {
  // The second stage of a pipeline costs more than the first, all of its ranks alike: that is the schedule.
  Case c(8);
  for (std::size_t r = 4; r < 8; ++r) c.delays.role[r] = 8;
  for (std::size_t b = 0; b < case_bins; ++b) c.delay(4 + anybody(b) % 4, b, 10'000'000);
  EXPECT_TRUE(c.stragglers().empty());
}

TEST(Stragglers, ASlowNodeIsNamedAsOne) {
  // In each step another of the node's four GPUs is the very last, so none stands out among them.
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) c.delay(4 + anybody(b) % 4, b, 10'000'000);
  for (std::size_t r = 4; r < 8; ++r)
    c.delays.excess_work_ns[r * case_bins] = 80'000'000 + static_cast<Nanoseconds>(r) * 1'000'000;
  const std::vector<Grouping> nodes{{Level::node, {"a", "a", "a", "a", "b", "b", "b", "b"}}};
  const auto stragglers = c.stragglers(nodes);
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].level, Level::node);
  EXPECT_EQ(stragglers[0].place, "b");
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{4, 5, 6, 7}));
  EXPECT_GE(stragglers[0].trace_rank, 4);
}

/// Two GPUs of one node of two, both late: one in every step, the other in every fourth, and then four times as much.
Case two_culprits(bool at_other_times) {
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) {
    c.delay(2, b, 10'000'000 + static_cast<Nanoseconds>(anybody(b)) * 10'000);
    if (!at_other_times) c.delay(3, b, 10'000'000 + static_cast<Nanoseconds>(anybody(b + 7)) * 10'000);
    if (at_other_times && b % 4 == 1) c.delay(3, b, 40'000'000);
  }
  return c;
}

TEST(Stragglers, TwoCulpritsOfOneSmallNodeAreNotTheNode) {
  const std::vector<Grouping> nodes{{Level::node, {"a", "a", "b", "b", "c", "c", "d", "d"}}};
  const auto two = two_culprits(true).stragglers(nodes);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].level, Level::gpu);
  EXPECT_EQ(two[1].level, Level::gpu);
  const auto node = two_culprits(false).stragglers(nodes);
  ASSERT_EQ(node.size(), 1U) << "late at the same times";
  EXPECT_EQ(node[0].place, "b");
}

TEST(Stragglers, CostWithoutWorkOfItsOwnConvictsNobody) {
  // Always the last, and charged with what noise adds; what it did itself took now longer, now less long than usual.
  Case c = made([](std::size_t) { return 5; }, 10'000'000);
  for (std::size_t b = 0; b < case_bins; ++b)
    for (std::size_t r = 0; r < 8; ++r)
      c.delays.excess_work_ns[r * case_bins + b] = anybody(b * 8 + r) < 4 ? 900'000 : -900'000;
  EXPECT_TRUE(c.stragglers().empty());
}

TEST(Stragglers, WhoIsLateByTheTransfersOfOneSlowRankIsThatRank) {
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) {
    c.delay(2, b, 10'000'000);
    c.delay(3, b, 7'000'000);
  }
  c.delays.slow_ranks = {{3, {2, 3, 7}}};
  for (const std::size_t r : {2U, 3U}) c.delays.slow_transfer_ns[r] = c.delays.excess_of(r) * 3 / 10;
  EXPECT_EQ(c.stragglers().size(), 2U) << "most of it is work";
  for (const std::size_t r : {2U, 3U}) c.delays.slow_transfer_ns[r] = c.delays.excess_of(r) * 6 / 10;
  const auto stragglers = c.stragglers();
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{3}));
  EXPECT_EQ(stragglers[0].delay_cost_ns, static_cast<Nanoseconds>(case_bins) * 17'000'000);
  EXPECT_NE(stragglers[0].evidence.back().find("trace ranks 2 exchange with it"), std::string::npos);
  c.delays.slow_ranks = {{3, {3, 7}}};
  EXPECT_EQ(c.stragglers().size(), 2U) << "the other does not exchange with it";
  // One that is late with it needs no proof of its own to be counted, but to be late by transfers.
  c.delays.slow_ranks = {{3, {2, 3, 6, 7}}};
  for (const std::size_t r : {6U, 7U}) c.delay(r, 0, 5'000'000);
  c.delays.slow_transfer_ns[7] = c.delays.excess_of(7);
  EXPECT_EQ(c.stragglers()[0].delay_cost_ns, static_cast<Nanoseconds>(case_bins) * 17'000'000 + 5'000'000);
}

TEST(Stragglers, ASlowRankIsNamedThoughItAndItsPartnersAreLastInTurns) {
  // Five of eight share its slow transfers and are equally late: which of them is the last is chance.
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) {
    c.delay(1 + anybody(b) % 5, b, 10'000'000);
    for (std::size_t r = 1; r < 6; ++r)
      c.delays.excess_work_ns[r * case_bins + b] = 3'000'000 + static_cast<Nanoseconds>(anybody(b + r)) * 1000;
  }
  EXPECT_TRUE(c.stragglers().empty());
  for (std::size_t r = 1; r < 6; ++r) c.delays.slow_transfer_ns[r] = c.delays.excess_of(r);
  c.delays.slow_ranks = {{3, {1, 2, 3, 4, 5}}};
  const auto stragglers = c.stragglers();
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{3}));
  EXPECT_EQ(stragglers[0].delay_cost_ns, static_cast<Nanoseconds>(case_bins) * 10'000'000);
  // Beside them somebody else is seen, though late in a few steps only.
  Case two = c;
  for (std::size_t b = 0; b < case_bins; b += 4) two.delay(6, b, 30'000'000);
  ASSERT_EQ(two.stragglers().size(), 2U);
  EXPECT_EQ(two.stragglers()[1].trace_ranks, (std::vector<std::int32_t>{6}));
  // Equal excess of everybody is nobody's.
  for (std::size_t i = 0; i < c.delays.excess_work_ns.size(); ++i) c.delays.excess_work_ns[i] = 3'000'000;
  EXPECT_TRUE(c.stragglers().empty());
}

TEST(Stragglers, TooFewStepsAreSaidToBeTooFew) {
  // One of two, in each of 10 steps: 2^-10, and a verdict takes 1e-3 / 2, which 11 steps reach.
  Case c(2);
  c.delays.bins = c.delays.steps = 10;
  c.delays.cost_ns.assign(2 * 10, 0);
  c.delays.excess_work_ns.assign(2 * 10, 0);
  for (std::size_t b = 0; b < 10; ++b) {
    c.delays.cost_ns[b] = 10'000'000;
    c.delays.excess_work_ns[b] = 10'000'000;
  }
  c.ranks[0].delay_cost_ns = 100'000'000;
  const Named named = find_stragglers(c.ranks, c.totals, c.delays, {});
  EXPECT_TRUE(named.stragglers.empty());
  ASSERT_EQ(named.unproven.size(), 1U);
  EXPECT_EQ(named.unproven[0].trace_ranks, (std::vector<std::int32_t>{0}));
  EXPECT_NEAR(named.unproven[0].p_value, std::pow(0.5, 10) / 0.99, 1e-6) << "1% is spent on delays of limited length";
  EXPECT_EQ(named.unproven[0].steps_needed, 11);
  c.delays.steps = 1000;  // bins of 100 steps each: it is these that are too few
  EXPECT_EQ(find_stragglers(c.ranks, c.totals, c.delays, {}).unproven[0].steps, 1000);
  EXPECT_EQ(find_stragglers(c.ranks, c.totals, c.delays, {}).unproven[0].steps_needed, 1099);
  EXPECT_DOUBLE_EQ(named.unproven[0].cost_share, 0.05);
  const auto findings = unproven_findings(named.unproven);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_NE(findings[0].evidence[1].find("11 prove it"), std::string::npos);
}

TEST(Stragglers, NoDelayNoVerdict) {
  EXPECT_TRUE(Case(8).stragglers().empty());
  EXPECT_TRUE(Case(1).stragglers().empty());
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

TEST(Findings, TellCopiesOnce) {
  JobReport report;
  report.ranks.resize(1);
  report.ranks[0].budget.window_ns = 1'000'000'000;
  report.ranks[0].budget.copy_ns = 900'000'000;
  NamedTotal blocking, copies;
  blocking.name = "cuda_memcpy_sync";
  blocking.total_ns = 300'000'000;
  copies.name = "[CUDA memcpy Host-to-Device]";
  copies.total_ns = 900'000'000;
  copies.bytes = 18'000'000'000;
  report.activity.rules = {blocking};
  report.activity.transfers = {copies};
  auto findings = find_problems(report);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "blocking-copies");
  EXPECT_EQ(findings[1].id, "exposed-copies");
  EXPECT_NE(findings[1].title.find("another 60.0% of GPU time"), std::string::npos) << findings[1].title;
  EXPECT_NE(findings[1].evidence[1].find("20.0 GB/s"), std::string::npos) << findings[1].evidence[1];
  report.activity.rules[0].total_ns = 900'000'000;
  EXPECT_EQ(find_problems(report).size(), 1U);
}

TEST(Findings, TellIdleTimeOnce) {
  JobReport report;
  report.ranks.resize(1);
  report.ranks[0].budget.window_ns = 1'000'000'000;
  report.ranks[0].budget.idle_ns = 300'000'000;
  NamedTotal starved;
  starved.name = "launch_starved";
  starved.total_ns = 270'000'000;
  report.activity.idle_causes = {starved};
  auto findings = find_problems(report);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "launch-starved");
  EXPECT_NE(findings[0].evidence[0].find("idle for 0.300 of 1.000"), std::string::npos) << findings[0].evidence[0];
  report.activity.idle_causes[0].total_ns = 100'000'000;
  findings = find_problems(report);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "gpu-idle");
  EXPECT_NE(findings[0].title.find("another 20.0%"), std::string::npos) << findings[0].title;
  EXPECT_EQ(findings[1].id, "launch-starved");
}

}  // namespace
}  // namespace nsys_explain::analysis
