#include "analysis/verdict/stragglers.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "straggler_case.hpp"

namespace nsys_explain::analysis {
namespace {

TEST(Stragglers, NamesTheRankThatIsLastTooOften) {
  const auto stragglers = made([](std::size_t b) { return b % 4 == 3 ? anybody(b) : 5; }, 10'000'000).stragglers();
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_rank, 5);
  EXPECT_EQ(stragglers[0].level, Level::gpu);
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{5}));
  EXPECT_LT(stragglers[0].p_value, 1e-15);
  EXPECT_FALSE(stragglers[0].evidence.empty());
  // 48 to 56 bins of 10 ms / 7, of 1 s.
  EXPECT_NEAR(stragglers[0].cost_share, 0.074, 0.006);
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
  EXPECT_EQ(stragglers[1].behind, (std::vector<std::int32_t>{3})) << "mended alone it saves nothing";
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
  // 64 times 14 us in 1 s are 0.09%, beside pauses of some 2% of each of them.
  const Case little = made_pausing(100'000);
  EXPECT_GT(little.ranks[0].caused_wait_ns, 80'000'000);
  EXPECT_TRUE(little.stragglers().empty());
  const auto stragglers = made_pausing(400'000).stragglers();
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{0}));
}

TEST(Stragglers, WhatLikesCostIsNoPartOfWhatIsProven) {
  // Of two ranks the first is always a little later: 3.00 / 7 ms to 2.95 / 7 ms in a step, 0.5 ms of 1 s more in all.
  Case c(2);
  for (std::size_t b = 0; b < case_bins; ++b) {
    c.delay(0, b, 3'000'000);
    c.delay(1, b, 2'950'000);
  }
  EXPECT_TRUE(c.stragglers().empty()) << "they are 2.7% late, both";
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
  const Named named = find_stragglers(c.ranks, c.totals, c.delays, {}, [](auto) { return 0.0001; });
  EXPECT_TRUE(named.stragglers.empty()) << "slow, but late for nobody";
}

TEST(Stragglers, OfManySlowOnesThoseThatSaveSomethingAreFoundWithFewReplays) {
  Case c(200);
  for (std::size_t r = 0; r < 200; ++r) {
    c.delays.speed[r] = {static_cast<std::int32_t>(r), 12, 1.2, 1e-9, true};
    for (std::size_t b = 0; b < case_bins; ++b) c.delay(r, b, 1'000'000);
  }
  // Number 70 is late on one path, 20 and 150 after each other on another that has time for one of them: 70 saves
  // nothing alone, and both of the others together what one does.
  std::size_t replays = 0;
  const Named named = find_stragglers(c.ranks, c.totals, c.delays, {},
                                      [&](std::span<const std::size_t> mended) -> std::optional<double> {
                                        ++replays;
                                        const auto has = [&](std::size_t rank) {
                                          return std::find(mended.begin(), mended.end(), rank) != mended.end();
                                        };
                                        return has(70) && (has(20) || has(150)) ? 0.01 : 0.0;
                                      });
  std::vector<std::int32_t> found;
  for (const Straggler& one : named.stragglers) found.push_back(one.trace_rank);
  std::sort(found.begin(), found.end());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(std::find(found.begin(), found.end(), 70) != found.end());
  EXPECT_TRUE(found == std::vector<std::int32_t>({20, 70}) || found == std::vector<std::int32_t>({70, 150}));
  EXPECT_LT(replays, 100U);
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
  c.delays.slow_places = {{{3}, {2, 3, 7}}};
  for (const std::size_t r : {2U, 3U}) c.by_transfers(r, 3);
  EXPECT_EQ(c.named_without_replay().stragglers.size(), 2U) << "most of it is work";
  for (const std::size_t r : {2U, 3U}) c.by_transfers(r, 6);
  EXPECT_EQ(c.named_without_replay().stragglers.size(), 2U) << "what else the other takes longer is its own";
  for (const std::size_t r : {2U, 3U}) c.by_transfers(r, 10);
  const auto stragglers = c.named_without_replay().stragglers;
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{3}));
  EXPECT_EQ(stragglers[0].delay_cost_ns, static_cast<Nanoseconds>(case_bins) * 17'000'000);
  EXPECT_NE(stragglers[0].evidence.end()[-2].find("ranks 2 exchange with it"), std::string::npos);
  c.delays.slow_places = {{{3}, {3, 7}}};
  EXPECT_EQ(c.named_without_replay().stragglers.size(), 2U) << "the other does not exchange with it";
  // One that is late with it needs no proof of its own to be counted, but to be late by transfers.
  c.delays.slow_places = {{{3}, {2, 3, 6, 7}}};
  for (const std::size_t r : {6U, 7U}) c.delay(r, 0, 5'000'000);
  c.by_transfers(7, 10);
  EXPECT_EQ(c.named_without_replay().stragglers[0].delay_cost_ns,
            static_cast<Nanoseconds>(case_bins) * 17'000'000 + 5'000'000);
  c.by_transfers(7, 6);
  EXPECT_NEAR(static_cast<double>(c.named_without_replay().stragglers[0].delay_cost_ns), case_bins * 17e6 + 3e6, 10);
  c.delays.excess_work_ns[7 * case_bins + 1] = -2'000'000;
  EXPECT_EQ(c.named_without_replay().stragglers[0].delay_cost_ns,
            static_cast<Nanoseconds>(case_bins) * 17'000'000 + 5'000'000)
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
  c.delays.slow_places = {{{4}, {4, 5, 6, 7}}};
  for (const Straggler& straggler : c.named_without_replay(nodes).stragglers) {
    EXPECT_EQ(straggler.level, Level::gpu);
    EXPECT_TRUE(straggler.trace_rank == 4 || straggler.trace_rank == 1) << straggler.trace_rank;
  }
}

TEST(Stragglers, ASlowNodeIsNamedAndNotTheOneThatExchangesWithIt) {
  const std::vector<Grouping> nodes{{Level::node, {"a", "a", "b", "b", "c", "c", "d", "d"}}};
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b)
    for (const std::size_t r : {2U, 3U, 6U, 7U}) c.delay(r, b, 10'000'000);
  for (const std::size_t r : {2U, 3U, 6U, 7U}) c.by_transfers(r, 10);
  EXPECT_EQ(c.named_without_replay(nodes).stragglers.size(), 2U) << "nothing tells which of the two it is";
  c.delays.slow_places = {{{2, 3}, {2, 3, 6, 7}}};
  const auto stragglers = c.named_without_replay(nodes).stragglers;
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(stragglers[0].place, "b");
  EXPECT_EQ(stragglers[0].delay_cost_ns, static_cast<Nanoseconds>(case_bins) * 40'000'000);
}

TEST(Stragglers, ASlowRankIsNamedThoughItAndItsPartnersAreLastInTurns) {
  // Five of eight share its slow transfers and are equally late: which of them is the last is chance.
  Case c(8);
  for (std::size_t b = 0; b < case_bins; ++b) {
    c.delay(1 + anybody(b) % 5, b, 10'000'000);
    for (std::size_t r = 1; r < 6; ++r)
      c.delays.excess_work_ns[r * case_bins + b] = 3'000'000 + static_cast<Nanoseconds>(anybody(b + r)) * 1000;
  }
  EXPECT_GT(c.named_without_replay().stragglers.size(), 1U) << "longer than three others, in every step";
  for (std::size_t r = 1; r < 6; ++r) c.by_transfers(r, 10);
  c.delays.slow_places = {{{3}, {1, 2, 3, 4, 5}}};
  const auto stragglers = c.named_without_replay().stragglers;
  ASSERT_EQ(stragglers.size(), 1U);
  EXPECT_EQ(stragglers[0].trace_ranks, (std::vector<std::int32_t>{3}));
  EXPECT_EQ(stragglers[0].delay_cost_ns, static_cast<Nanoseconds>(case_bins) * 10'000'000);
  // Beside them somebody else is seen, though late in a few steps only.
  Case two = c;
  for (std::size_t b = 0; b < case_bins; b += 4) two.delay(6, b, 30'000'000);
  ASSERT_EQ(two.named_without_replay().stragglers.size(), 2U);
  EXPECT_EQ(two.named_without_replay().stragglers[1].trace_ranks, (std::vector<std::int32_t>{6}));
  // And so is one of those who share them, by what it is late beside: a pause in every fourth step.
  Case partner = c;
  for (std::size_t b = 0; b < case_bins; b += 4) partner.delay(2, b, 70'000'000);
  const auto both = partner.named_without_replay().stragglers;
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].trace_ranks, (std::vector<std::int32_t>{2}));
  EXPECT_EQ(both[1].trace_ranks, (std::vector<std::int32_t>{3}));
  EXPECT_EQ(both[1].delay_cost_ns, static_cast<Nanoseconds>(case_bins) * 10'000'000 - c.ranks[2].caused_wait_ns)
      << "what rank 2 costs is in its own";
  // Equal excess of everybody is nobody's.
  for (std::size_t i = 0; i < c.delays.excess_work_ns.size(); ++i) c.delays.excess_work_ns[i] = 3'000'000;
  EXPECT_TRUE(c.named_without_replay().stragglers.empty());
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
  EXPECT_TRUE(is_named_at(1.0, 1.015)) << "kernels took 0.15 ms of it, which counts twice";
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

TEST(Stragglers, NoDelayNoVerdict) {
  EXPECT_TRUE(Case(8).stragglers().empty());
  EXPECT_TRUE(Case(1).stragglers().empty());
}

}  // namespace
}  // namespace nsys_explain::analysis
