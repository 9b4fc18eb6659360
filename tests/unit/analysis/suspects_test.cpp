#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "analysis/problems/find_problems.hpp"
#include "straggler_case.hpp"

/// Who is not named though late, and why: too few steps, behind another, no replay, at too little cost.
namespace nsys_explain::analysis {
namespace {

/// One of two, in each of so many steps, by the same in each.
Named one_of_two(std::size_t bins, std::size_t steps) {
  Case c(2);
  c.delays.bins = bins;
  c.delays.steps = steps;
  c.delays.caused_wait_ns.assign(2 * bins, 0);
  c.delays.excess_work_ns.assign(2 * bins, 0);
  for (std::size_t b = 0; b < bins; ++b) c.delays.caused_wait_ns[b] = c.delays.excess_work_ns[b] = 10'000'000;
  c.ranks[0].caused_wait_ns = 100'000'000;
  return c.named();
}

TEST(Suspects, TooFewStepsAreSaidToBeTooFew) {
  // In each of 10 steps: 2^-10, and a verdict takes 1e-3 / 2, which 11 steps reach.
  const Named named = one_of_two(10, 10);
  EXPECT_TRUE(named.stragglers.empty());
  ASSERT_EQ(named.suspects.size(), 1U);
  const SuspectedStraggler& suspect = named.suspects[0];
  EXPECT_EQ(suspect.doubt, Doubt::too_few_steps);
  EXPECT_EQ(suspect.late.trace_ranks, (std::vector<std::int32_t>{0}));
  // A hundredth is spent on delays of limited length, another on the order in each step.
  EXPECT_NEAR(suspect.late.p_value, std::pow(0.5, 10) / (0.99 * 0.99), 1e-6);
  EXPECT_EQ(suspect.steps_needed, 11);
  EXPECT_DOUBLE_EQ(suspect.verdict_p_value, 1e-3 / 2);
  EXPECT_NEAR(suspect.late.cost_share, 0.1, 1e-9);  // 10 ms in each of 10 steps, of 1 s
  EXPECT_TRUE(one_of_two(11, 11).suspects.empty());
  EXPECT_EQ(one_of_two(11, 11).stragglers.size(), 1U);
  // Bins of 100 steps each: it is these that are too few.
  EXPECT_EQ(one_of_two(10, 1000).suspects[0].steps, 1000);
  // 1000 log(5e-4) / log(9.964e-4) = 1099.8
  EXPECT_EQ(one_of_two(10, 1000).suspects[0].steps_needed, 1100);

  JobReport report;
  report.suspects = named.suspects;
  const auto findings = find_problems(report);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "unproven-straggler");
  EXPECT_NE(findings[0].evidence[1].find("11 steps like these would prove it"), std::string::npos);
}

TEST(Suspects, TwoNodesNeedNoMoreStepsBecauseTheyHaveManyGpus) {
  // One of two nodes in each of 14 steps, by another GPU of it in each: 2^-14 = 6.1e-5. Nodes have half of the 1e-3,
  // and each of them half of that; shared by all 18 places alike it would be 5.6e-5.
  Case c(16);
  c.delays.bins = c.delays.steps = 14;
  c.delays.caused_wait_ns.assign(16 * 14, 0);
  c.delays.excess_work_ns.assign(16 * 14, 0);
  for (std::size_t b = 0; b < 14; ++b) {
    const std::size_t entry = (8 + b % 8) * 14 + b;
    c.delays.caused_wait_ns[entry] = c.delays.excess_work_ns[entry] = 10'000'000;
  }
  for (std::size_t r = 8; r < 16; ++r) c.ranks[r].caused_wait_ns = 17'500'000;
  std::vector<std::string> node_of_rank(8, "a");
  node_of_rank.resize(16, "b");
  const std::vector<Grouping> nodes{{Level::node, node_of_rank}};
  const Named named = c.named(nodes);
  ASSERT_EQ(named.stragglers.size(), 1U);
  EXPECT_EQ(named.stragglers[0].place, "b");
}

/// In every step rank 3 is late, and rank 6 by as much or less.
Case made_hidden(const std::function<Nanoseconds(std::size_t bin)>& of_6) {
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) {
    c.delay(3, b, 49'000'000);  // and 7 ms of work
    c.delays.excess_work_ns[6 * case_bins + b] = of_6(b);
  }
  return c;
}

/// Of 8 ranks the sixth is late by so much in every bin, and somebody, now and then it, by 3 ms.
Case made_behind_delays_that_go_round(Nanoseconds always) {
  constexpr Nanoseconds ms = 1'000'000;
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) {
    c.delays.excess_work_ns[5 * case_bins + b] += always;
    c.delays.excess_work_ns[anybody(b) * case_bins + b] += 3 * ms;
  }
  return c;
}

TEST(Suspects, WhoIsLateBehindDelaysThatGoRoundIsProvenByTheOrder) {
  for (const Nanoseconds always : {2'000'000, 900'000}) {
    const auto stragglers = made_behind_delays_that_go_round(always).stragglers();
    ASSERT_EQ(stragglers.size(), 1U);
    EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{5}));
    EXPECT_LT(stragglers[0].p_value, 1e-9);
  }
}

TEST(Suspects, DelaysThatGoRoundHideNobodyWhereAllAreAlike) {
  constexpr Nanoseconds us = 1'000;
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) {
    c.delay(anybody(b), b, 21'000 * us);
    for (std::size_t r = 0; r < 8; ++r)  // noise
      c.delays.excess_work_ns[r * case_bins + b] += static_cast<Nanoseconds>(anybody(7 * b + r)) * 100 * us;
  }
  const Named named = c.named();
  EXPECT_TRUE(named.stragglers.empty());
  EXPECT_TRUE(named.suspects.empty());
}

TEST(Suspects, WhoIsLateBehindAnotherIsNotForgotten) {
  const Case c = made_hidden([](std::size_t) { return 4'000'000; });
  const Named named = c.named();
  EXPECT_TRUE(named.suspects.empty());
  ASSERT_EQ(named.stragglers.size(), 2U);
  EXPECT_EQ(named.stragglers[0].trace_rank, 3);
  EXPECT_TRUE(named.stragglers[0].behind.empty());
  // Rank 3 is late by 7 ms, rank 6 by 4 ms in each of 64 steps, of 1 s.
  EXPECT_NEAR(named.stragglers[0].cost_share, 64 * 0.003, 1e-9);
  const Straggler& hidden = named.stragglers[1];
  EXPECT_EQ(hidden.trace_ranks, (std::vector<std::int32_t>{6}));
  EXPECT_EQ(hidden.behind, (std::vector<std::int32_t>{3}));
  EXPECT_LT(hidden.p_value, 1e-10);
  EXPECT_NEAR(hidden.cost_share, 64 * 0.004, 1e-9);

  JobReport report;
  report.stragglers = named.stragglers;
  WhatIf mended;
  mended.subject = "trace_rank";
  mended.trace_ranks = {6};
  mended.after = {3};
  mended.finding = "hidden-straggler";
  mended.saved_share = 0.256;
  mended.low_share = 0.25;
  mended.high_share = 0.262;
  mended.step_ns_before = 12'625'000;
  mended.step_ns_after = 8'625'000;
  report.what_if = {mended};
  const auto findings = find_problems(report);
  const auto finding =
      std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.id == "hidden-straggler"; });
  ASSERT_NE(finding, findings.end());
  EXPECT_NE(
      finding->title.find(
          "Fixing it alone saves nothing yet; once rank 3 is fixed, it shortens a step from 12.6 to 8.62 ms (-25.6%, 95% interval 25.0 to 26.2%)"),
      std::string::npos)
      << finding->title;
}

TEST(Suspects, WhoSavesTimeAloneOrTogetherIsNamed) {
  // Either of them as usual saves 10%, and so do both: a path beside them becomes the longest.
  const Case c = made_hidden([](std::size_t) { return 7'000'000; });
  const auto capped = [](std::span<const std::size_t> ranks) { return ranks.empty() ? 0.0 : 0.1; };
  const Named named = find_stragglers(c.ranks, c.totals, c.delays, {}, capped);
  ASSERT_EQ(named.stragglers.size(), 2U) << "each of them saves it by itself";
  // Neither saves anything by itself: both are needed.
  const auto together = [](std::span<const std::size_t> ranks) { return ranks.size() == 2 ? 0.1 : 0.0; };
  EXPECT_EQ(find_stragglers(c.ranks, c.totals, c.delays, {}, together).stragglers.size(), 2U);
  // One of them never matters.
  const auto one = [](std::span<const std::size_t> ranks) { return ranks.back() == 6 ? 0.1 : 0.0; };
  EXPECT_EQ(find_stragglers(c.ranks, c.totals, c.delays, {}, one).stragglers.size(), 1U);
}

TEST(Suspects, TwoThatAreLateAlikeSaveSomethingTogether) {
  const Case c = made_hidden([](std::size_t) { return 7'000'000; });
  const Named named = c.named();
  ASSERT_EQ(named.stragglers.size(), 2U);
  for (const Straggler& straggler : named.stragglers) {
    EXPECT_NEAR(straggler.cost_share, 64 * 0.007, 1e-9);
    EXPECT_EQ(straggler.behind.size(), 1U);
  }
  EXPECT_TRUE(named.suspects.empty());
}

TEST(Suspects, WhoseLongerWorkSavesNothingIsNoSuspect) {
  const Case longer = made_hidden([](std::size_t) { return 4'000'000; });
  const Named named = find_stragglers(longer.ranks, longer.totals, longer.delays, {}, [](auto) { return 0.0; });
  EXPECT_TRUE(named.stragglers.empty());
  EXPECT_TRUE(named.suspects.empty());
  // A little, like anybody.
  const Case noise = made_hidden([](std::size_t b) { return static_cast<Nanoseconds>(anybody(b)) * 1000; });
  EXPECT_TRUE(noise.named().suspects.empty());
}

/// Two nodes of four GPUs, the second 2 ms late in each step.
Case made_slow_node() {
  Case c(8);
  for (std::size_t r = 4; r < 8; ++r)
    for (std::size_t b = 0; b < case_bins; ++b) c.delays.excess_work_ns[r * case_bins + b] = 2'000'000;
  return c;
}

const std::vector<Grouping>& two_nodes() {
  static const std::vector<Grouping> nodes{{Level::node, {"n0", "n0", "n0", "n0", "n1", "n1", "n1", "n1"}}};
  return nodes;
}

TEST(Suspects, WithoutAReplayLongerWorkIsSuspected) {
  const Case c = made_slow_node();
  const Named named = c.named_without_replay(two_nodes());
  EXPECT_TRUE(named.stragglers.empty()) << "nobody is seen to wait";
  ASSERT_EQ(named.suspects.size(), 1U);
  const SuspectedStraggler& unseen = named.suspects[0];
  EXPECT_EQ(unseen.doubt, Doubt::unseen);
  EXPECT_EQ(unseen.late.place, "n1");
  EXPECT_EQ(unseen.late.trace_ranks, (std::vector<std::int32_t>{4, 5, 6, 7}));
  EXPECT_LT(unseen.late.p_value, 1e-15);
  EXPECT_NEAR(unseen.unseen_cost_share, 64 * 0.002, 1e-9);  // of 1 s, at most

  JobReport report;
  report.suspects = named.suspects;
  const auto findings = find_problems(report);
  const auto finding =
      std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.id == "unseen-straggler"; });
  ASSERT_NE(finding, findings.end());
  EXPECT_NE(finding->title.find("node n1 (all 4 ranks) takes longer than its peers"), std::string::npos);
}

TEST(Suspects, WithoutAReplayWhatOthersWaitIsTheCost) {
  Case c = made_slow_node();
  for (std::size_t r = 4; r < 8; ++r) c.ranks[r].caused_wait_ns = 100'000'000;
  const Named named = c.named_without_replay(two_nodes());
  ASSERT_EQ(named.stragglers.size(), 1U);
  EXPECT_NEAR(named.stragglers[0].cost_share, 0.4 / 8, 1e-9);
  EXPECT_TRUE(named.suspects.empty());
}

/// One of `ranks` delays the others in so many steps, and nobody else does.
Case made_of_few(std::size_t ranks, std::size_t hits) {
  Case c(ranks);
  c.delays.steps = case_bins;
  for (std::size_t b = 0; b < hits; ++b) c.delay(1, 3 * b, 100'000'000);
  return c;
}

TEST(Suspects, AreNamedAsSoonAsChanceIsRuledOut) {
  // Delays that go round hit the same of n ranks k times with n^(1 - k), whoever it is: at most 0.1% from here on.
  const std::pair<std::size_t, std::size_t> least[] = {{2, 11}, {3, 8}, {4, 6}, {5, 6}, {6, 5}, {8, 5}, {16, 4}};
  for (const auto& [ranks, hits] : least) {
    const auto named = made_of_few(ranks, hits).stragglers();
    ASSERT_EQ(named.size(), 1U) << ranks;
    EXPECT_EQ(named[0].trace_rank, 1);
    const Case fewer = made_of_few(ranks, hits - 1);
    const Named unproven = fewer.named();
    EXPECT_TRUE(unproven.stragglers.empty()) << ranks;
    ASSERT_EQ(unproven.suspects.size(), 1U) << ranks;
    EXPECT_EQ(unproven.suspects[0].late.trace_rank, 1);
    EXPECT_EQ(unproven.suspects[0].doubt, Doubt::too_few_steps);
  }
}

TEST(Suspects, WhoIsLateBeyondChanceAtLittleCostIsNotNamed) {
  // 64 steps of 30 us are 1.92 ms of 1 s: less than 0.2%. 2^-64 by chance.
  Case c(2);
  for (std::size_t b = 0; b < case_bins; ++b) c.delays.excess_work_ns[case_bins + b] = 30'000;
  EXPECT_TRUE(c.named().stragglers.empty());
  EXPECT_TRUE(c.named().suspects.empty());
  for (std::size_t b = 0; b < case_bins; ++b) c.delays.excess_work_ns[case_bins + b] = 40'000;
  EXPECT_EQ(c.named().stragglers.size(), 1U);
  // A run asks for 1%, by which fault-free recordings of one job differ: 64 times 150 us are 0.96%, 160 us 1.02%.
  c.criteria = {};
  for (std::size_t b = 0; b < case_bins; ++b) c.delays.excess_work_ns[case_bins + b] = 150'000;
  EXPECT_TRUE(c.named().stragglers.empty());
  EXPECT_TRUE(c.named().late_without_cost.empty());
  for (std::size_t b = 0; b < case_bins; ++b) c.delays.excess_work_ns[case_bins + b] = 160'000;
  EXPECT_EQ(c.named().stragglers.size(), 1U);
  EXPECT_TRUE(c.named().late_without_cost.empty()) << "it is named";
}

TEST(Suspects, WhoTakesLongerWithoutACostIsTold) {
  // 64 times 300 us are 1.92% of 1 s; the replay says that mending saves 0.1%.
  Case c(2);
  for (std::size_t b = 0; b < case_bins; ++b) c.delays.excess_work_ns[case_bins + b] = 300'000;
  const Named named = find_stragglers(c.ranks, c.totals, c.delays, {}, [](auto) { return std::optional(0.001); });
  EXPECT_TRUE(named.stragglers.empty());
  EXPECT_TRUE(named.suspects.empty());
  ASSERT_EQ(named.late_without_cost.size(), 1U);
  EXPECT_EQ(named.late_without_cost[0].trace_ranks, (std::vector<std::int32_t>{1}));
  EXPECT_NEAR(named.late_without_cost[0].longer_share, 0.0192, 1e-6);
  EXPECT_LT(named.late_without_cost[0].p_value, 1e-15);
}

}  // namespace
}  // namespace nsys_explain::analysis
