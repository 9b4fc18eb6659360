#include "analysis/waits/waits.hpp"

#include <gtest/gtest.h>

namespace nsys_explain::analysis {
namespace {

/// One instance with these members.
MatchedBlock block_of(std::vector<InstanceArrival> members) {
  MatchedBlock block;
  Instance instance;
  instance.arrivals = static_cast<std::int32_t>(members.size());
  instance.members = instance.arrivals;
  instance.complete = true;
  instance.operation = Operation::all_reduce;
  instance.message_bytes = 4000;
  block.arrivals = std::move(members);
  block.instances = {instance};
  return block;
}

InstanceArrival member(std::int32_t rank, Nanoseconds enter, Nanoseconds exit) {
  return {.enter = JobTime(enter), .exit = JobTime(exit), .trace_rank = rank};
}

/// All clocks are related, every difference is known to 10 ns.
const ClockKnowledge ten{[](std::int32_t) { return 0; },
                         [](std::int32_t, std::int32_t, JobTime) -> Nanoseconds { return 10; }};

/// Waits, then lateness where each member's work beyond its peers' is known.
void compute_all(MatchedBlock& block, std::initializer_list<Nanoseconds> excess_work) {
  compute_waits(block, ten);
  Instance& instance = block.instances[0];
  auto excess = excess_work.begin();
  for (InstanceArrival& arrival : block.arrivals) split_lateness(instance, arrival, *excess++);
  compute_caused_wait(instance, block.arrivals);
}

TEST(Waits, WorkedExample) {
  // Rank 2 enters 300 after the first; it worked 250 longer than its peers, so 50 of its lateness it inherited.
  MatchedBlock block = block_of({member(0, 1000, 1420), member(1, 1040, 1425), member(2, 1300, 1410)});
  compute_all(block, {-10, 0, 250});
  const Instance& instance = block.instances[0];
  EXPECT_EQ(instance.first_enter.ns, 1000);
  EXPECT_EQ(instance.last_enter.ns, 1300);
  EXPECT_EQ(instance.last_trace_rank, 2);
  EXPECT_TRUE(instance.resolved);
  EXPECT_TRUE(instance.feasible);
  EXPECT_EQ(instance.skew_uncertainty_ns, 10);
  EXPECT_EQ(wait_ns(block.instances[0], block.arrivals[0]), 300);
  EXPECT_EQ(wait_ns(block.instances[0], block.arrivals[1]), 260);
  EXPECT_EQ(wait_ns(block.instances[0], block.arrivals[2]), 0);
  EXPECT_EQ(transfer_ns(block.instances[0], block.arrivals[0]), 120);
  EXPECT_EQ(instance.transfer_ns, 120);     // of 110, 120, 125
  EXPECT_EQ(instance.end_residual_ns, 15);  // 1425 - 1410
  EXPECT_EQ(block.arrivals[2].own_lateness_ns, 250);
  EXPECT_EQ(inherited_lateness_ns(block.instances[0], block.arrivals[2]), 50);
  EXPECT_EQ(block.arrivals[1].own_lateness_ns, 0);
  EXPECT_EQ(inherited_lateness_ns(block.instances[0], block.arrivals[1]), 40);
  // Without its own 250 it had come at 1050: each of the others waits 250 less.
  EXPECT_EQ(instance.caused_wait_ns, 500);
}

TEST(Waits, CausedWaitStopsAtTheSecondLast) {
  MatchedBlock block = block_of({member(0, 0, 1100), member(1, 900, 1100), member(2, 1000, 1100)});
  compute_all(block, {0, 0, 800});
  // Own lateness is 800, but rank 1 came at 900 anyway: only 100 per waiting member can be saved.
  EXPECT_EQ(block.arrivals[2].own_lateness_ns, 800);
  EXPECT_EQ(block.instances[0].caused_wait_ns, 200);
}

TEST(Waits, LastArriverBelowThreeUncertaintiesIsNotResolved) {
  MatchedBlock block = block_of({member(0, 0, 200), member(1, 30, 200)});
  compute_all(block, {0, 40});
  EXPECT_FALSE(block.instances[0].resolved);
  EXPECT_EQ(block.instances[0].caused_wait_ns, 0);
  EXPECT_EQ(wait_ns(block.instances[0], block.arrivals[0]), 30) << "the estimate stands, the verdict does not";
}

TEST(Waits, TheUncertaintyIsThatOfTheLastTwoAtTheirTime) {
  // The clocks of ranks 1 and 2 are tied closely, and all of them drift apart with time.
  const ClockKnowledge clock{[](std::int32_t) { return 0; },
                             [](std::int32_t a, std::int32_t b, JobTime at) -> Nanoseconds {
                               return std::abs(a - b) * (at.ns < 50'000 ? 10 : 100);
                             }};
  const std::vector<InstanceArrival> members{member(0, 0, 200), member(1, 100, 200), member(2, 150, 200)};
  MatchedBlock early = block_of(members);
  compute_waits(early, clock);
  EXPECT_EQ(early.instances[0].skew_uncertainty_ns, 10);
  EXPECT_TRUE(early.instances[0].resolved);
  std::vector<InstanceArrival> later = members;
  for (InstanceArrival& arrival : later) arrival.enter = arrival.enter + 50'000, arrival.exit = arrival.exit + 50'000;
  MatchedBlock late = block_of(later);
  compute_waits(late, clock);
  EXPECT_EQ(late.instances[0].skew_uncertainty_ns, 100);
  EXPECT_FALSE(late.instances[0].resolved);
}

TEST(Waits, NothingIsClaimedBetweenUnrelatedClocks) {
  MatchedBlock block = block_of({member(0, 0, 200), member(1, 100000, 100200)});
  compute_waits(block, {[](std::int32_t rank) { return rank; }, ten.uncertainty});
  EXPECT_FALSE(block.instances[0].comparable);
  EXPECT_FALSE(block.instances[0].resolved);
  EXPECT_EQ(block.instances[0].skew_uncertainty_ns, -1);
  EXPECT_EQ(block.instances[0].end_residual_ns, -1);
  EXPECT_EQ(wait_ns(block.instances[0], block.arrivals[0]), 0);
}

TEST(Waits, AnExitBeforeTheLastEnterIsInfeasible) {
  MatchedBlock block = block_of({member(0, 0, 100), member(1, 500, 600)});
  compute_waits(block, ten);
  EXPECT_FALSE(block.instances[0].feasible);
  EXPECT_FALSE(block.instances[0].resolved);
  EXPECT_EQ(wait_ns(block.instances[0], block.arrivals[0]), 0) << "nothing is claimed";
}

TEST(Waits, ASenderMayLeaveBeforeItsReceiverEnters) {
  MatchedBlock block = block_of({member(0, 0, 100), member(1, 500, 600)});
  block.instances[0].operation = Operation::broadcast;
  compute_waits(block, ten);
  EXPECT_TRUE(block.instances[0].feasible);
  EXPECT_EQ(wait_ns(block.instances[0], block.arrivals[0]), 100) << "it cannot have waited after it left";
}

TEST(Waits, WhoLeavesBeforeTheLastOneEntersDidNotWaitForIt) {
  // A reduce to rank 1: rank 0 has sent its part and left before rank 2 came, the root waits until then. Of the 500
  // that rank 2 is late, all its own work, only the root's 450 would vanish.
  MatchedBlock block = block_of({member(0, 0, 100), member(1, 50, 620), member(2, 500, 600)});
  block.instances[0].operation = Operation::reduce;
  compute_all(block, {0, 0, 450});
  EXPECT_FALSE(stayed_for_last(block.instances[0], block.arrivals[0]));
  EXPECT_TRUE(stayed_for_last(block.instances[0], block.arrivals[1]));
  EXPECT_EQ(wait_ns(block.instances[0], block.arrivals[0]), 100)
      << "as defined: until the last one enters, or its own exit";
  EXPECT_EQ(wait_ns(block.instances[0], block.arrivals[1]), 450);
  EXPECT_EQ(block.instances[0].caused_wait_ns, 450);
  // 30 are within the clocks' uncertainty: it may have been there.
  block.arrivals[0].exit = JobTime(475);
  EXPECT_TRUE(stayed_for_last(block.instances[0], block.arrivals[0]));
}

TEST(Waits, OwnLatenessIsAtMostTheLateness) {
  MatchedBlock block = block_of({member(0, 0, 1000), member(1, 500, 1000)});
  compute_all(block, {900, 900});
  EXPECT_EQ(block.arrivals[0].own_lateness_ns, 0) << "it came first";
  EXPECT_EQ(block.arrivals[1].own_lateness_ns, 500);
  EXPECT_EQ(inherited_lateness_ns(block.instances[0], block.arrivals[1]), 0);
}

TEST(Totals, WithoutSizesATraceRankHasNoBandwidth) {
  MatchedBlock block = block_of({member(0, 0, 100), member(1, 50, 120)});
  block.instances[0].message_bytes = -1;
  compute_all(block, {0, 0});
  Totals totals = make_totals(2);
  accumulate(totals, block, std::vector<std::int32_t>{0, 1});
  EXPECT_EQ(totals.ranks[0].arrivals, 1);
  EXPECT_FALSE(bus_bandwidth_gbs(totals.ranks[0]).has_value());
}

TEST(Totals, SumsRanksOperationsAndCommunicators) {
  MatchedBlock block = block_of({member(3, 1000, 1420), member(5, 1040, 1425), member(9, 1300, 1410)});
  block.communicator = 1;
  block.unmatched_arrivals = 4;
  compute_all(block, {-10, 0, 250});
  Totals totals = make_totals(3);
  const std::vector<std::int32_t> ranks{3, 5, 9};
  EXPECT_EQ(totals.largest_skew_uncertainty_ns, -1);
  accumulate(totals, block, ranks);
  accumulate(totals, block, ranks);
  EXPECT_EQ(totals.largest_skew_uncertainty_ns, 10);
  EXPECT_EQ(totals.ranks[0].wait_ns, 600);
  EXPECT_EQ(totals.ranks[2].arrivals, 2);
  EXPECT_EQ(totals.ranks[2].last_arrivals, 2);
  EXPECT_EQ(totals.ranks[2].own_last_arrivals, 2);
  EXPECT_EQ(totals.ranks[2].caused_wait_ns, 1000);
  EXPECT_EQ(totals.ranks[2].expected_last_ppb, 2 * 333'333'333);
  EXPECT_EQ(totals.spans[2].first_ns, 1300);

  CommunicatorTotals communicator;
  count_instances(communicator, block);
  count_instances(communicator, block);
  EXPECT_EQ(communicator.instances, 2);
  EXPECT_EQ(communicator.complete, 2);
  EXPECT_EQ(communicator.unmatched_arrivals, 8);

  const auto operations = summarise_operations(totals.operations);
  ASSERT_EQ(operations.size(), 1U);
  EXPECT_EQ(operations[0].operation, Operation::all_reduce);
  EXPECT_EQ(operations[0].instances, 2);
  EXPECT_EQ(operations[0].bytes, 8000);
  EXPECT_EQ(operations[0].transfer_ns, 240);
  EXPECT_EQ(operations[0].wait_ns, 2 * 560);
  EXPECT_DOUBLE_EQ(*operations[0].algorithm_bandwidth_gbs, 8000.0 / 240);
  // Twice 4,000 bytes among three: a bus carries 4/3 of them, in whole bytes, in 2 x 120 ns.
  EXPECT_DOUBLE_EQ(*bus_bandwidth_gbs(totals.ranks[1]), 2 * 5333.0 / 240);
  // 2(n-1)/n with n = 3 of 4000 bytes is 5333.3 bytes, counted in whole bytes.
  EXPECT_DOUBLE_EQ(*operations[0].bus_bandwidth_gbs, 2 * 5333.0 / 240);
}

}  // namespace
}  // namespace nsys_explain::analysis
