#include "nsys_explain/analysis/stragglers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "nsys_explain/analysis/findings.hpp"

namespace nsys_explain::analysis {
namespace {

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
    delays.slow_transfer_ns.assign(count * case_bins, 0);
    delays.clock_group.assign(count, 0);
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

  /// So many tenths of what it takes longer are slow transfers.
  void by_transfers(std::size_t rank, Nanoseconds tenths) {
    for (std::size_t i = rank * case_bins; i < (rank + 1) * case_bins; ++i)
      delays.slow_transfer_ns[i] = delays.excess_work_ns[i] * tenths / 10;
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

/// Four ranks, each of which pauses now and then; the first is a little late in every step besides.
Case made_pausing(Nanoseconds always) {
  Case c(4);
  for (std::size_t b = 0; b < case_bins; ++b) {
    c.delay(0, b, always);
    if (b % 4 == 0) c.delay(anybody(b) % 4, b, 33'000'000);
  }
  return c;
}

TEST(Stragglers, PausesThatAnybodyHasAreNoPartOfWhatIsProven) {
  // 64 times 0.1 ms in 4 s of GPU time are 0.16%, beside pauses that cost each of them some 3%.
  const Case little = made_pausing(100'000);
  EXPECT_GT(little.ranks[0].delay_cost_ns, 80'000'000);
  EXPECT_TRUE(little.stragglers().empty());
  const auto stragglers = made_pausing(200'000).stragglers();
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{0}));
}

TEST(Stragglers, WhatLikesCostIsNoPartOfWhatIsProven) {
  // Of two ranks the first is always a little later: 3.00 ms to 2.95 ms in a step, 3.2 ms of 2 s more in all.
  Case c(2);
  for (std::size_t b = 0; b < case_bins; ++b) {
    c.delay(0, b, 3'000'000);
    c.delay(1, b, 2'950'000);
  }
  EXPECT_TRUE(c.stragglers().empty()) << "they cost 9.6% and 9.4%";
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
  for (const std::size_t r : {2U, 3U}) c.by_transfers(r, 3);
  EXPECT_EQ(c.stragglers().size(), 2U) << "most of it is work";
  for (const std::size_t r : {2U, 3U}) c.by_transfers(r, 6);
  EXPECT_EQ(c.stragglers().size(), 2U) << "what else the other takes longer is its own";
  for (const std::size_t r : {2U, 3U}) c.by_transfers(r, 10);
  const auto stragglers = c.stragglers();
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{3}));
  EXPECT_EQ(stragglers[0].delay_cost_ns, static_cast<Nanoseconds>(case_bins) * 17'000'000);
  EXPECT_NE(stragglers[0].evidence.end()[-2].find("trace ranks 2 exchange with it"), std::string::npos);
  c.delays.slow_ranks = {{3, {3, 7}}};
  EXPECT_EQ(c.stragglers().size(), 2U) << "the other does not exchange with it";
  // One that is late with it needs no proof of its own to be counted, but to be late by transfers.
  c.delays.slow_ranks = {{3, {2, 3, 6, 7}}};
  for (const std::size_t r : {6U, 7U}) c.delay(r, 0, 5'000'000);
  c.by_transfers(7, 10);
  EXPECT_EQ(c.stragglers()[0].delay_cost_ns, static_cast<Nanoseconds>(case_bins) * 17'000'000 + 5'000'000);
  c.by_transfers(7, 6);
  EXPECT_NEAR(static_cast<double>(c.stragglers()[0].delay_cost_ns), case_bins * 17e6 + 3e6, 10);
  c.delays.excess_work_ns[7 * case_bins + 1] = -2'000'000;
  EXPECT_EQ(c.stragglers()[0].delay_cost_ns, static_cast<Nanoseconds>(case_bins) * 17'000'000 + 5'000'000)
      << "it would be early but for the transfers";
}

TEST(Stragglers, APlaceIsNoCulpritForAMemberThatIsLateByTheTransfersOfAnother) {
  // Ranks 4 to 7 exchange with slow rank 4. Node "b" holds rank 5 and one that noise adds a little to.
  const std::vector<Grouping> nodes{{Level::node, {"a", "b", "a", "c", "d", "b", "c", "d"}}};
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) {
    for (const std::size_t r : {4U, 5U, 6U, 7U}) c.delay(r, b, r == 4 ? 20'000'000 : 9'000'000);
    c.delay(1, b, 3'000'000);
  }
  for (const std::size_t r : {4U, 5U, 6U, 7U}) c.by_transfers(r, 10);
  c.delays.slow_ranks = {{4, {4, 5, 6, 7}}};
  for (const Straggler& straggler : c.stragglers(nodes)) {
    EXPECT_EQ(straggler.level, Level::gpu);
    EXPECT_TRUE(straggler.trace_rank == 4 || straggler.trace_rank == 1) << straggler.trace_rank;
  }
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
  for (std::size_t r = 1; r < 6; ++r) c.by_transfers(r, 10);
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
  // And so is one of those who share them, by what it is late beside: a pause in every fourth step.
  Case partner = c;
  for (std::size_t b = 0; b < case_bins; b += 4) partner.delay(2, b, 70'000'000);
  const auto both = partner.stragglers();
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].trace_ranks, (std::vector<std::int32_t>{2}));
  EXPECT_EQ(both[1].trace_ranks, (std::vector<std::int32_t>{3}));
  EXPECT_EQ(both[1].delay_cost_ns, static_cast<Nanoseconds>(case_bins) * 10'000'000 - c.ranks[2].delay_cost_ns)
      << "what rank 2 costs is in its own";
  // Equal excess of everybody is nobody's.
  for (std::size_t i = 0; i < c.delays.excess_work_ns.size(); ++i) c.delays.excess_work_ns[i] = 3'000'000;
  EXPECT_TRUE(c.stragglers().empty());
}

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

TEST(Stragglers, TooFewStepsAreSaidToBeTooFew) {
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
  EXPECT_NE(findings[0].evidence[1].find("11 prove it"), std::string::npos);
}

TEST(Stragglers, TwoNodesNeedNoMoreStepsBecauseTheyHaveManyGpus) {
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

TEST(Stragglers, WhoIsLateBehindDelaysThatGoRoundIsProvenByItsPartInAllOfThem) {
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

TEST(Stragglers, WhoIsLateFarBehindDelaysThatGoRoundIsToldWithWhatItWouldCost) {
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
  EXPECT_NE(findings[1].title.find("trace rank 5 is late, too, but nobody waits for it behind delays that wander from "
                                   "trace rank to trace rank: mend both"),
            std::string::npos);
}

TEST(Stragglers, DelaysThatGoRoundHideNobodyWhereAllAreAlike) {
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

TEST(Stragglers, WhoIsLateBehindAnotherIsNotForgotten) {
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

TEST(Stragglers, LongerWorkThatNobodyWouldWaitForHidesBehindNobody) {
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

TEST(Stragglers, WhoseWaitingIsNotSeenForWantOfACommonClockIsSuspected) {
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

TEST(Stragglers, LongerWorkForWhichNobodySeemsToWaitIsNotSuspected) {
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

TEST(Stragglers, APauseNowAndThenOfANeighbourMakesNoPlaceOfACulprit) {
  // 64 times 10 ms / 7 of one are 91 ms of work too long, three lost records of its neighbour 48 ms.
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) c.delay(3, b, 10'000'000);
  for (const std::size_t b : {7U, 30U, 41U}) c.delays.excess_work_ns[2 * case_bins + b] = 16'000'000;
  const std::vector<Grouping> nodes{{Level::node, {"n0", "n0", "n1", "n1", "n2", "n2", "n3", "n3"}}};
  const auto stragglers = c.stragglers(nodes);
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{3}));
  // Where it is as late in the same steps, the node is.
  for (std::size_t b = 0; b < case_bins; ++b) c.delays.excess_work_ns[2 * case_bins + b] = 10'000'000 / 7;
  const auto both = c.stragglers(nodes);
  ASSERT_EQ(both.size(), 1U);
  EXPECT_EQ(both[0].place, "n1");
}

TEST(Stragglers, AFewLongDelaysOfOneAndManyShortOnesOfAnotherAreNoPlace) {
  // The same index on two nodes: one is late in each step, the other in every third, by four times as much. Neither is
  // ahead in more steps than chance allows, but always by its own measure.
  Case c(8);
  for (std::size_t b = 0; b < 39; ++b) {
    c.delay(1, b, 21'000'000 + static_cast<Nanoseconds>(anybody(b)) * 10'000);
    if (b % 3 == 0) c.delay(5, b, 84'000'000);
  }
  const std::vector<Grouping> rails{{Level::rail, {"0", "1", "2", "3", "0", "1", "2", "3"}}};
  const auto stragglers = c.stragglers(rails);
  ASSERT_EQ(stragglers.size(), 2U);
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{5}));
  EXPECT_EQ(stragglers[1].trace_ranks, (std::vector<std::int32_t>{1}));
}

/// One of `ranks` delays the others in so many steps, and nobody else does.
Case made_of_few(std::size_t ranks, std::size_t hits) {
  Case c(ranks);
  c.delays.steps = case_bins;
  for (std::size_t b = 0; b < hits; ++b) c.delay(1, 3 * b, 100'000'000);
  return c;
}

TEST(Stragglers, AreNamedAsSoonAsChanceIsRuledOut) {
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

TEST(Stragglers, WorkThatWandersByAsMuchConvictsNobody) {
  // Two GPUs, one 3 ms / 7 longer in every step of 10 ms: were steps independent, 2^-64. But speeds wander by 1%, which
  // is 1.05% by the median of chi-square with 7 degrees of freedom, their difference by 1.484%, of which 4.53 are in
  // chance's reach (Student's t): 0.67 ms.
  Case c(2);
  for (std::size_t b = 0; b < case_bins; ++b) c.delay(1, b, 3'000'000);
  EXPECT_EQ(c.stragglers().size(), 1U);
  c.delays.kernel_ns = {10'000'000, 10'000'000};
  c.delays.wander = {{0.01, 7}, {0.012, 7}};
  EXPECT_TRUE(c.stragglers().empty());
  c.delays.wander = {{0.005, 7}, {0.3, 7}};  // the late one may wander by being late
  EXPECT_EQ(c.stragglers().size(), 1U);
}

TEST(Stragglers, OnlyLongerKernelsMayBeAWander) {
  // As above: 0.43 ms longer in every step of 10 ms, where speeds drift apart by 0.67 ms.
  Case c(2);
  for (std::size_t b = 0; b < case_bins; ++b) c.delay(1, b, 3'000'000);
  c.delays.kernel_ns = {10'000'000, 10'000'000};
  c.delays.wander = {{0.01, 7}, {0.012, 7}};
  const auto is_named_at = [&](double of_other, double of_late) {
    c.delays.slowness.assign(case_bins, of_other);
    c.delays.slowness.insert(c.delays.slowness.end(), case_bins, of_late);
    return !c.stragglers().empty();
  };
  EXPECT_TRUE(is_named_at(1.0, 1.0)) << "a late host";
  EXPECT_TRUE(is_named_at(1.0, 1.02)) << "kernels took 0.20 ms of it, which counts twice";
  EXPECT_FALSE(is_named_at(1.0, 1.025)) << "kernels took 0.25 ms of it";
  EXPECT_FALSE(is_named_at(1.0, 1.05)) << "kernels took 0.50 ms longer";
  EXPECT_FALSE(is_named_at(0.97, 1.02)) << "likewise";
  EXPECT_TRUE(is_named_at(1.05, 1.0)) << "late though its GPU is the faster one";
  EXPECT_FALSE(is_named_at(0, 1.0)) << "of the other nothing is known";
  c.delays.role = {7, 8};
  EXPECT_FALSE(is_named_at(1.0, 1.0)) << "no peer to compare its kernels with";
  c.delays.role = {7, 7};
  for (std::size_t b = 0; b < case_bins; ++b) c.delays.excess_work_ns[b] = 3'000'000 / 7;
  EXPECT_FALSE(is_named_at(1.05, 1.0)) << "the other takes as long, if by its kernels";
}

TEST(Stragglers, WhoIsLateBeyondChanceAtLittleCostIsASlightOne) {
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
  EXPECT_EQ(findings[0].id, "exposed-copies");
  EXPECT_EQ(findings[1].id, "blocking-copies");
  EXPECT_EQ(findings[0].title, "60.0% of GPU time is copies that no kernel hides, besides those of other findings");
  EXPECT_EQ(findings[0].cost_ns, 600'000'000);
  EXPECT_EQ(findings[1].cost_ns, 300'000'000);
  EXPECT_NE(findings[0].evidence[1].find("20.0 GB/s"), std::string::npos) << findings[0].evidence[1];
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
  EXPECT_EQ(findings[0].title, "GPUs are idle for 20.0% of their time for other reasons");
  EXPECT_EQ(findings[0].cost_ns, 200'000'000);
  EXPECT_EQ(findings[1].id, "launch-starved");
}

}  // namespace
}  // namespace nsys_explain::analysis
