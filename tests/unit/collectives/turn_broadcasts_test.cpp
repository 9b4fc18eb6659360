#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/turn_sets.hpp"
#include "seeds.hpp"

namespace nsys_explain::collectives {
namespace {

constexpr std::uint64_t symbol = 1;

/// Eight lanes in two communicators, whose first member sends to the others.
std::vector<TurnLane> broadcasts_of(const std::vector<LaneSet>& sets, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned end) { return static_cast<Nanoseconds>(random() % end); };
  std::vector<TurnLane> lanes(8);
  for (Nanoseconds time_ns = 0; time_ns < 40'000'000; time_ns += 1'000'000) {
    for (const LaneSet& set : sets) {
      Nanoseconds root_enter_ns = 0;
      for (const std::size_t l : set) {
        TurnOperation& operation = lanes[l].operations[symbol].emplace_back();
        operation.operation = Operation::broadcast;
        operation.enter_ns = time_ns + below(20'000);
        if (l == set.front()) root_enter_ns = operation.enter_ns;
        operation.exit_ns = std::max(operation.enter_ns, root_enter_ns) + 8'000 + below(500);
      }
    }
  }
  for (TurnLane& lane : lanes) {
    lane.first_exit_ns = 0;
    lane.last_exit_ns = 41'000'000;
  }
  return lanes;
}

TEST(TurnBroadcasts, WhereTheRootLostItsRecordNothingSpeaksAgainstIt) {
  const LaneSet halves[] = {{0, 1, 2, 3}, {4, 5, 6, 7}};
  std::vector<std::vector<LaneSet>> sets(8);
  for (std::size_t l = 0; l < 8; ++l) sets[l] = {halves[l / 4]};
  std::vector<TurnLane> lanes = broadcasts_of({halves[0], halves[1]}, 1);
  for (const std::size_t root : {std::size_t{0}, std::size_t{4}}) {
    std::vector<TurnOperation>& operations = lanes[root].operations.at(symbol);
    for (std::size_t i = operations.size(); i-- > 0;) {
      if (i % 4 == 0) operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  claim_broadcasts(lanes, sets);
  for (std::size_t l = 0; l < 8; ++l) {
    for (const TurnOperation& operation : lanes[l].operations.at(symbol)) EXPECT_NE(operation.claimed, nullptr) << l;
  }
}

TEST(TurnBroadcasts, WhatFewLanesHoldIsOfNoProgram) {
  const LaneSet halves[] = {{0, 1, 2, 3}, {4, 5, 6, 7}}, stray = {0, 3};
  std::vector<std::vector<LaneSet>> sets(8);
  for (std::size_t l = 0; l < 8; ++l) sets[l] = {halves[l / 4]};
  for (const std::size_t l : stray) sets[l].push_back(stray);
  for (const unsigned seed : nsys_explain::tiers::seeds(40)) {
    std::vector<TurnLane> lanes = broadcasts_of({halves[0], halves[1]}, seed);
    claim_broadcasts(lanes, sets);
    for (std::size_t l = 0; l < 8; ++l) {
      for (const TurnOperation& operation : lanes[l].operations.at(symbol)) {
        ASSERT_NE(operation.claimed, nullptr) << seed;
        EXPECT_EQ(*operation.claimed, halves[l / 4]) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace nsys_explain::collectives
