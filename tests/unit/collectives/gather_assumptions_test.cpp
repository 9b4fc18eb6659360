#include "collectives/gather_assumptions.hpp"
#include "seeds.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace nsys_explain::collectives {
namespace {

constexpr std::uint64_t symbol = 1;
constexpr Nanoseconds transfer_ns = 50'000;

/// Tensor pairs {0, 1} and {2, 3}, data pairs {0, 2} and {1, 3}.
std::vector<std::vector<LaneSet>> sets_of_lanes() {
  const LaneSet tensor[] = {{0, 1}, {2, 3}}, data[] = {{0, 2}, {1, 3}};
  return {{tensor[0], data[0]}, {tensor[0], data[1]}, {tensor[1], data[0]}, {tensor[1], data[1]}};
}

/// All-gathers of the data pairs. Lanes enter within `apart_ns`, those of tensor pairs within a `pair_apart_ns`;
/// members leave when they like, some microseconds after they could.
std::vector<TurnLane> gathers_of_data_pairs(unsigned seed, Nanoseconds apart_ns, Nanoseconds pair_apart_ns) {
  std::mt19937 random(seed);
  const auto below = [&](Nanoseconds end) { return static_cast<Nanoseconds>(random() % static_cast<unsigned>(end)); };
  std::vector<TurnLane> lanes(4);
  for (std::size_t l = 0; l < 4; ++l) {
    lanes[l].trace_rank = static_cast<std::int32_t>(l);
    for (std::size_t other = 0; other < 4; ++other) {
      if (other != l) lanes[l].neighbours.push_back(other);
    }
  }
  for (Nanoseconds i = 0; i < 60; ++i) {
    Nanoseconds enters[4];
    for (std::size_t pair = 0; pair < 2; ++pair) {
      const Nanoseconds enter_ns = 1'000'000 * i + below(apart_ns);
      for (std::size_t l : {2 * pair, 2 * pair + 1}) enters[l] = enter_ns + below(pair_apart_ns);
    }
    for (std::size_t l = 0; l < 4; ++l) {
      TurnOperation& operation = lanes[l].operations[symbol].emplace_back();
      operation.operation = Operation::all_gather;
      operation.enter_ns = enters[l];
      operation.exit_ns = std::max(enters[l], enters[(l + 2) % 4]) + transfer_ns + below(5'000);
    }
  }
  for (TurnLane& lane : lanes) {
    lane.first_exit_ns = 0;
    lane.last_exit_ns = 100'000'000;
  }
  return lanes;
}

/// Who explains the gathers of all lanes, of lane 0 only so many; nothing: nobody.
LaneSet explained_for_lane_0(const std::vector<TurnLane>& lanes, std::size_t of_lane_0 = 60) {
  const auto sets = sets_of_lanes();
  const Families families = families_of(sets);
  Gathers gathers;
  for (std::size_t l = 0; l < 4; ++l) {
    for (std::size_t i = 0; i < lanes[l].operations.at(symbol).size(); ++i) gathers[l].push_back(i);
  }
  gathers[0].resize(std::min(of_lane_0, gathers[0].size()));
  const std::vector<Assumption> all = assumptions_of(lanes, symbol, families);
  const Assumption* found = explaining(gathers, all, 20);
  return found == nullptr ? LaneSet{} : *found->kind->at(0);
}

TEST(GatherAssumptions, WhomMembersWaitForTells) {
  for (const unsigned seed : nsys_explain::tiers::seeds(40))
    EXPECT_EQ(explained_for_lane_0(gathers_of_data_pairs(seed, 30'000, 30'000)), (LaneSet{0, 2})) << seed;
}

TEST(GatherAssumptions, WhereMembersAreInStepNothingIsExplained) {
  for (const unsigned seed : nsys_explain::tiers::seeds(40)) {
    EXPECT_EQ(explained_for_lane_0(gathers_of_data_pairs(seed, 300, 300)), LaneSet{}) << seed;
    // Who waits for one of a tensor pair waits for both: the data pair, or all.
    EXPECT_EQ(explained_for_lane_0(gathers_of_data_pairs(seed, 30'000, 300)), LaneSet{}) << seed;
  }
}

TEST(GatherAssumptions, FewOperationsTellNothing) {
  std::vector<TurnLane> lanes = gathers_of_data_pairs(1, 30'000, 30'000);
  for (TurnLane& lane : lanes) lane.operations.at(symbol).resize(2);
  EXPECT_EQ(explained_for_lane_0(lanes), LaneSet{});
}

TEST(GatherAssumptions, WhoIsAskedAboutOneStrayOperationDoesNotSpeakForOthers) {
  // Lane 0 is the first of its pairs, whichever they are.
  for (const unsigned seed : nsys_explain::tiers::seeds(10))
    EXPECT_EQ(explained_for_lane_0(gathers_of_data_pairs(seed, 30'000, 30'000), 1), (LaneSet{0, 2})) << seed;
}

TEST(GatherAssumptions, NobodyLeavesBeforeTheLastIsThere) {
  // The second of each tensor pair always comes when the first has left, at one time after it to the nanosecond.
  std::vector<TurnLane> lanes = gathers_of_data_pairs(1, 3'000, 300);
  for (std::size_t l : {1, 3}) {
    for (std::size_t i = 0; i < 60; ++i) {
      const TurnOperation& first = lanes[l - 1].operations.at(symbol)[i];
      TurnOperation& second = lanes[l].operations.at(symbol)[i];
      second.enter_ns = first.exit_ns + 40'000;
      second.exit_ns = second.enter_ns + transfer_ns + 1'000 * static_cast<Nanoseconds>(i % 5);
    }
  }
  const auto sets = sets_of_lanes();
  const Families families = families_of(sets);
  const std::vector<Assumption> all = assumptions_of(lanes, symbol, families);
  Gathers gathers;
  for (std::size_t l = 0; l < 4; ++l) {
    for (std::size_t i = 0; i < 60; ++i) gathers[l].push_back(i);
  }
  const Assumption* found = explaining(gathers, all, 0);
  EXPECT_TRUE(found == nullptr || found->kind->at(0)->back() != 1);
}

TEST(GatherAssumptions, WhoWasNotCapturedCannotBeJudged) {
  // Lanes 2 and 3 were captured during the first two only: whether data pairs did the others is not known.
  std::vector<TurnLane> lanes = gathers_of_data_pairs(1, 30'000, 30'000);
  for (const std::size_t l : {2, 3}) {
    lanes[l].operations.at(symbol).resize(2);
    lanes[l].last_exit_ns = 1'500'000;
  }
  EXPECT_EQ(explained_for_lane_0(lanes), LaneSet{});
}

std::size_t count_claimed(const TurnLane& lane) {
  const std::vector<TurnOperation>& operations = lane.operations.at(symbol);
  return static_cast<std::size_t>(
      std::count_if(operations.begin(), operations.end(), [](const auto& o) { return o.claimed != nullptr; }));
}

TEST(ClaimedGathers, SomeCommunicatorsLeaveLateMoreOftenThanOthers) {
  // Those of lanes 0 and 2 lie at one place, those of the others at three.
  for (const unsigned seed : nsys_explain::tiers::seeds(20)) {
    std::vector<TurnLane> lanes = gathers_of_data_pairs(seed, 80'000, 80'000);
    std::mt19937 random(seed);
    for (std::size_t l = 0; l < 4; ++l) {
      for (std::size_t i = 0; i < 60; ++i) {
        TurnOperation& operation = lanes[l].operations.at(symbol)[i];
        operation.place = l % 2 == 0 ? 1 : 2 + i / 20;
        if (l % 2 == 0) operation.exit_ns += static_cast<Nanoseconds>(random() % 20'000);
      }
    }
    const auto sets = sets_of_lanes();
    claim_gathers(lanes, sets);
    for (std::size_t l = 0; l < 4; ++l) {
      EXPECT_GE(count_claimed(lanes[l]), 54U) << seed << " " << l;
      for (const TurnOperation& operation : lanes[l].operations.at(symbol))
        EXPECT_TRUE(operation.claimed == nullptr || *operation.claimed == sets[l][1]) << seed;
    }
  }
}

TEST(UnmetGathers, WhatNoOtherMemberDidIsWithdrawn) {
  std::vector<TurnLane> lanes = gathers_of_data_pairs(1, 30'000, 30'000);
  const LaneSet all{0, 1, 2, 3}, data[] = {{0, 2}, {1, 3}};
  for (std::size_t l = 0; l < 4; ++l) {
    for (TurnOperation& operation : lanes[l].operations.at(symbol)) operation.claimed = &data[l % 2];
  }
  lanes[3].operations.at(symbol)[20].claimed = &all;
  withdraw_unmet_gathers(lanes);
  EXPECT_EQ(count_claimed(lanes[0]), 60U);
  EXPECT_EQ(count_claimed(lanes[2]), 60U);
  EXPECT_EQ(lanes[3].operations.at(symbol)[20].claimed, nullptr);
  EXPECT_EQ(lanes[1].operations.at(symbol)[20].claimed, nullptr) << "nothing is left to leave it with";
  EXPECT_EQ(count_claimed(lanes[1]) + count_claimed(lanes[3]), 118U);
}

TEST(UnmetGathers, WhatEndsFarFromWhatAnotherOneEndsWithIsWithdrawn) {
  std::vector<TurnLane> lanes = gathers_of_data_pairs(1, 30'000, 30'000);
  const LaneSet data[] = {{0, 2}, {1, 3}};
  for (std::size_t l = 0; l < 4; ++l) {
    for (TurnOperation& operation : lanes[l].operations.at(symbol)) operation.claimed = &data[l % 2];
  }
  // Lane 0 did something else first while lane 2 waited, and that is taken for what they did together.
  TurnOperation& waiting = lanes[2].operations.at(symbol)[20];
  waiting.enter_ns -= 200'000;
  std::vector<TurnOperation>& operations = lanes[0].operations.at(symbol);
  operations[20].claimed = nullptr;
  TurnOperation other = operations[20];
  other.enter_ns = waiting.enter_ns - 10'000;
  other.exit_ns = operations[20].enter_ns - 10'000;
  other.claimed = &data[0];
  operations.insert(operations.begin() + 20, other);
  withdraw_unmet_gathers(lanes);
  EXPECT_EQ(operations[20].claimed, nullptr);
  EXPECT_EQ(count_claimed(lanes[0]), 59U);
  EXPECT_EQ(count_claimed(lanes[1]) + count_claimed(lanes[3]), 120U);
}

}  // namespace
}  // namespace nsys_explain::collectives
