#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "analysis/findings/findings.hpp"
#include "straggler_case.hpp"

/// Who is not named though late, and why: too few steps, behind another, unseen, at too little cost.
namespace nsys_explain::analysis {
namespace {

/// One of two, in each of so many steps, by the same in each.
Named one_of_two(std::size_t bins, std::size_t steps) {
  Case c(2);
  c.delays.bins = bins;
  c.delays.steps = steps;
  c.delays.cost_ns.assign(2 * bins, 0);
  c.delays.excess_work_ns.assign(2 * bins, 0);
  for (std::size_t b = 0; b < bins; ++b) c.delays.cost_ns[b] = c.delays.excess_work_ns[b] = 10'000'000;
  c.ranks[0].delay_cost_ns = 100'000'000;
  return find_stragglers(c.ranks, c.totals, c.delays, {});
}

TEST(Suspects, TooFewStepsAreSaidToBeTooFew) {
  // In each of 10 steps: 2^-10, and a verdict takes 1e-3 / 2, which 11 steps reach.
  const Named named = one_of_two(10, 10);
  EXPECT_TRUE(named.stragglers.empty());
  ASSERT_EQ(named.suspects.size(), 1U);
  const SuspectedStraggler& suspect = named.suspects[0];
  EXPECT_EQ(suspect.doubt, Doubt::too_few_steps);
  EXPECT_EQ(suspect.late.trace_ranks, (std::vector<std::int32_t>{0}));
  // A hundredth is spent on delays of limited length, another on parts of what all cost.
  EXPECT_NEAR(suspect.late.p_value, std::pow(0.5, 10) / (0.99 * 0.99), 1e-6);
  EXPECT_EQ(suspect.steps_needed, 11);
  EXPECT_DOUBLE_EQ(suspect.verdict_p_value, 1e-3 / 2);
  EXPECT_DOUBLE_EQ(suspect.late.cost_share, 0.05);
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
  c.delays.cost_ns.assign(16 * 14, 0);
  c.delays.excess_work_ns.assign(16 * 14, 0);
  for (std::size_t b = 0; b < 14; ++b) {
    const std::size_t entry = (8 + b % 8) * 14 + b;
    c.delays.cost_ns[entry] = c.delays.excess_work_ns[entry] = 10'000'000;
  }
  for (std::size_t r = 8; r < 16; ++r) c.ranks[r].delay_cost_ns = 17'500'000;
  std::vector<std::string> node_of_rank(8, "a");
  node_of_rank.resize(16, "b");
  const std::vector<Grouping> nodes{{Level::node, node_of_rank}};
  const Named named = find_stragglers(c.ranks, c.totals, c.delays, nodes);
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

/// Of 8 ranks the sixth is late by 2 ms in every bin, and somebody, now and then it, by 3 ms. `waited_for`: whether the
/// others wait for the sixth where it is the latest, or somebody else is charged with that.
Case made_behind_delays_that_go_round(bool waited_for) {
  constexpr Nanoseconds ms = 1'000'000;
  Case c(8);
  const auto charge = [&](std::size_t rank, std::size_t bin, Nanoseconds cost) {
    c.delays.cost_ns[rank * case_bins + bin] += cost;
    c.ranks[rank].delay_cost_ns += cost;
  };
  for (std::size_t b = 0; b < case_bins; ++b) {
    const std::size_t other = anybody(b);
    c.delays.excess_work_ns[5 * case_bins + b] += 2 * ms;
    c.delays.excess_work_ns[other * case_bins + b] += 3 * ms;
    charge(other == 5 && !waited_for ? b % 4 : other, b, 7 * (other == 5 ? 5 : 3) * ms);
  }
  return c;
}

TEST(Suspects, WhoIsLateBehindDelaysThatGoRoundIsProvenByItsPartInAllOfThem) {
  const auto stragglers = made_behind_delays_that_go_round(true).stragglers();
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{5}));
  EXPECT_LT(stragglers[0].p_value, 1e-9);
  EXPECT_TRUE(made_behind_delays_that_go_round(false).stragglers().empty()) << "nobody waits for it";
}

/// Of 8 ranks the sixth is late by 0.9 ms in every bin, and somebody, now and then it, by 3 ms. `waited_for`: likewise.
Case made_far_behind_delays_that_go_round(bool waited_for) {
  constexpr Nanoseconds us = 1'000;
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) {
    const std::size_t other = anybody(b);
    c.delays.excess_work_ns[5 * case_bins + b] += 900 * us;
    c.delays.excess_work_ns[other * case_bins + b] += 3000 * us;
    const std::size_t charged = other == 5 && !waited_for ? b % 4 : other;
    const Nanoseconds cost = 7 * (other == 5 ? 3900 : 3000) * us;
    c.delays.cost_ns[charged * case_bins + b] += cost;
    c.ranks[charged].delay_cost_ns += cost;
  }
  return c;
}

TEST(Suspects, WhoIsLateFarBehindDelaysThatGoRoundIsToldWithWhatItWouldCost) {
  const Case c = made_far_behind_delays_that_go_round(true);
  const Named named = find_stragglers(c.ranks, c.totals, c.delays, {});
  EXPECT_TRUE(named.stragglers.empty()) << "in most steps nobody waits for it";
  ASSERT_EQ(named.suspects.size(), 1U);
  const SuspectedStraggler& hidden = named.suspects[0];
  EXPECT_EQ(hidden.doubt, Doubt::hidden);
  EXPECT_EQ(hidden.late.trace_ranks, (std::vector<std::int32_t>{5}));
  EXPECT_TRUE(hidden.behind.empty()) << "nobody in particular";
  EXPECT_LT(hidden.late.p_value, 1e-9);
  // Seven wait for each nanosecond. Without what goes round it is late by 0.9 ms in each of 64 steps; all eight save
  // the others' 2.1 of 3 ms, and its own 3 of 3.9 ms where it was hit itself, of 8 s.
  std::size_t hits = 0;
  for (std::size_t b = 0; b < case_bins; ++b) hits += anybody(b) == 5 ? 1 : 0;
  ASSERT_GT(hits, 0U);
  const double mended = static_cast<double>(case_bins - hits) * 0.0021 + static_cast<double>(hits) * 0.003;
  EXPECT_NEAR(hidden.hidden_cost_share, 7 * case_bins * 0.0009 / (8 - 8 * mended), 1e-6);
  EXPECT_EQ(find_stragglers(made_far_behind_delays_that_go_round(false).ranks, c.totals,
                            made_far_behind_delays_that_go_round(false).delays, {})
                .suspects.size(),
            0U)
      << "others do not wait for it where it is the latest";

  JobReport report;
  report.ranks = c.ranks;
  report.suspects = named.suspects;
  report.delay.rotating = true;
  report.delay.attributed_ns = 1'000'000'000;
  const auto findings = find_problems(report);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "rotating-delay");
  EXPECT_NE(findings[0].title.find("nobody else is late as a rule"), std::string::npos);
  EXPECT_EQ(findings[1].id, "hidden-straggler");
  EXPECT_NE(findings[1].title.find("is late, too, behind delays that wander from trace rank to trace rank: mending it "
                                   "alone saves nothing yet"),
            std::string::npos);
}

TEST(Suspects, DelaysThatGoRoundHideNobodyWhereAllAreAlike) {
  constexpr Nanoseconds us = 1'000;
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) {
    c.delay(anybody(b), b, 21'000 * us);
    for (std::size_t r = 0; r < 8; ++r)  // noise
      c.delays.excess_work_ns[r * case_bins + b] += static_cast<Nanoseconds>(anybody(7 * b + r)) * 100 * us;
  }
  const Named named = find_stragglers(c.ranks, c.totals, c.delays, {});
  EXPECT_TRUE(named.stragglers.empty());
  EXPECT_TRUE(named.suspects.empty());
}

TEST(Suspects, WhoIsLateBehindAnotherIsNotForgotten) {
  const Case c = made_hidden([](std::size_t) { return 4'000'000; });
  const Named named = find_stragglers(c.ranks, c.totals, c.delays, {});
  ASSERT_EQ(named.stragglers.size(), 1U);
  EXPECT_EQ(named.stragglers[0].trace_rank, 3);
  ASSERT_EQ(named.suspects.size(), 1U);
  const SuspectedStraggler& hidden = named.suspects[0];
  EXPECT_EQ(hidden.doubt, Doubt::hidden);
  EXPECT_EQ(hidden.late.trace_ranks, (std::vector<std::int32_t>{6}));
  EXPECT_EQ(hidden.behind, (std::vector<std::int32_t>{3}));
  EXPECT_LT(hidden.late.p_value, 1e-10);
  // Seven wait for each nanosecond. Mended, rank 3 saves all eight 3 of 7 ms in each of 64 steps, of 8 s; 4 ms are
  // left.
  EXPECT_NEAR(hidden.hidden_cost_share, 7 * 64 * 0.004 / (8 - 8 * 64 * 0.003), 1e-9);

  JobReport report;
  report.stragglers = named.stragglers;
  report.suspects = named.suspects;
  const auto findings = find_problems(report);
  const auto finding =
      std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.id == "hidden-straggler"; });
  ASSERT_NE(finding, findings.end());
  EXPECT_NE(finding->title.find("trace rank 6 is late, too, but nobody waits for it behind trace rank 3"),
            std::string::npos);
}

TEST(Suspects, LongerWorkThatNobodyWouldWaitForHidesBehindNobody) {
  // Beyond all that rank 3 is late, and still nobody waits: it has the time.
  const Case longer = made_hidden([](std::size_t) { return 40'000'000; });
  EXPECT_TRUE(find_stragglers(longer.ranks, longer.totals, longer.delays, {}).suspects.empty());
  // A little, like anybody.
  const Case noise = made_hidden([](std::size_t b) { return static_cast<Nanoseconds>(anybody(b)) * 1000; });
  EXPECT_TRUE(find_stragglers(noise.ranks, noise.totals, noise.delays, {}).suspects.empty());
  // Nobody is late for others.
  Case alone = made_hidden([](std::size_t) { return 4'000'000; });
  std::fill(alone.delays.cost_ns.begin(), alone.delays.cost_ns.end(), 0);
  EXPECT_TRUE(find_stragglers(alone.ranks, alone.totals, alone.delays, {}).suspects.empty());
}

/// Two nodes of four GPUs, the second 2 ms late in each step. Nothing relates their clocks, so nobody is seen to wait,
/// but those of the first communicate for 300 ms of 1 s, those of the second for 100 ms.
Case made_unseen() {
  Case c(8);
  for (std::size_t r = 0; r < 8; ++r) {
    c.delays.clock_group[r] = r < 4 ? 0 : 1;
    c.ranks[r].budget.exposed_communication_ns = r < 4 ? 300'000'000 : 100'000'000;
    for (std::size_t b = 0; b < case_bins; ++b) c.delays.excess_work_ns[r * case_bins + b] = r < 4 ? 0 : 2'000'000;
  }
  return c;
}

const std::vector<Grouping>& two_nodes() {
  static const std::vector<Grouping> nodes{{Level::node, {"n0", "n0", "n0", "n0", "n1", "n1", "n1", "n1"}}};
  return nodes;
}

TEST(Suspects, WhoseWaitingIsNotSeenForWantOfACommonClockIsSuspected) {
  Case c = made_unseen();
  Named named = find_stragglers(c.ranks, c.totals, c.delays, two_nodes());
  EXPECT_TRUE(named.stragglers.empty());
  ASSERT_EQ(named.suspects.size(), 1U);
  const SuspectedStraggler& unseen = named.suspects[0];
  EXPECT_EQ(unseen.doubt, Doubt::unseen);
  EXPECT_EQ(unseen.late.place, "n1");
  EXPECT_EQ(unseen.late.trace_ranks, (std::vector<std::int32_t>{4, 5, 6, 7}));
  EXPECT_LT(unseen.late.p_value, 1e-15);
  // Four trace ranks communicate 200 ms longer, of which 64 times 2 ms are waiting at most; of 8 s.
  EXPECT_NEAR(unseen.unseen_cost_share, 4 * 0.128 / 8, 1e-9);

  JobReport report;
  report.suspects = named.suspects;
  const auto findings = find_problems(report);
  const auto finding =
      std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.id == "unseen-straggler"; });
  ASSERT_NE(finding, findings.end());
  EXPECT_NE(finding->title.find("node n1 (all 4 trace ranks) takes longer than its peers"), std::string::npos);

  // 50 ms more communication is no more waiting than that.
  for (std::size_t r = 0; r < 4; ++r) c.ranks[r].budget.exposed_communication_ns = 150'000'000;
  named = find_stragglers(c.ranks, c.totals, c.delays, two_nodes());
  ASSERT_EQ(named.suspects.size(), 1U);
  EXPECT_NEAR(named.suspects[0].unseen_cost_share, 4 * 0.05 / 8, 1e-9);
}

TEST(Suspects, LongerWorkForWhichNobodySeemsToWaitIsNotSuspected) {
  Case related = made_unseen();  // then all waiting is seen, and there is none
  related.delays.clock_group.assign(8, 0);
  EXPECT_TRUE(find_stragglers(related.ranks, related.totals, related.delays, two_nodes()).suspects.empty());
  Case as_long = made_unseen();
  for (RankSummary& rank : as_long.ranks) rank.budget.exposed_communication_ns = 300'000'000;
  EXPECT_TRUE(find_stragglers(as_long.ranks, as_long.totals, as_long.delays, two_nodes()).suspects.empty());
  Case alike = made_unseen();
  std::fill(alike.delays.excess_work_ns.begin(), alike.delays.excess_work_ns.end(), 2'000'000);
  EXPECT_TRUE(find_stragglers(alike.ranks, alike.totals, alike.delays, two_nodes()).suspects.empty());
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
    const Named unproven = find_stragglers(fewer.ranks, fewer.totals, fewer.delays, {});
    EXPECT_TRUE(unproven.stragglers.empty()) << ranks;
    ASSERT_EQ(unproven.suspects.size(), 1U) << ranks;
    EXPECT_EQ(unproven.suspects[0].late.trace_rank, 1);
    EXPECT_EQ(unproven.suspects[0].doubt, Doubt::too_few_steps);
  }
}

TEST(Suspects, WhoIsLateBeyondChanceAtLittleCostIsASlightOne) {
  // 64 steps of 40 us are 2.56 ms of 2 GPUs' 2 s: 0.128%, less than the 0.2% of a verdict. 2^-64 by chance.
  Case c(2);
  for (std::size_t b = 0; b < case_bins; ++b) c.delay(1, b, 40'000);
  const Named named = find_stragglers(c.ranks, c.totals, c.delays, {});
  EXPECT_TRUE(named.stragglers.empty());
  ASSERT_EQ(named.suspects.size(), 1U);
  EXPECT_EQ(named.suspects[0].doubt, Doubt::slight);
  EXPECT_EQ(named.suspects[0].late.trace_ranks, (std::vector<std::int32_t>{1}));
  EXPECT_DOUBLE_EQ(named.suspects[0].late.cost_share, 0.00128);
  EXPECT_LT(named.suspects[0].late.p_value, 1e-15);
  // Twice as much is a straggler, and no suspect.
  for (std::size_t b = 0; b < case_bins; ++b) c.delay(1, b, 40'000);
  const Named twice = find_stragglers(c.ranks, c.totals, c.delays, {});
  ASSERT_EQ(twice.stragglers.size(), 1U);
  EXPECT_TRUE(twice.suspects.empty());
}
}  // namespace
}  // namespace nsys_explain::analysis
