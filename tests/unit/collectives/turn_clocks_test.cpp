#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/turn_sets.hpp"
#include "seeds.hpp"

namespace nsys_explain::collectives {
namespace {

constexpr std::uint64_t symbol = 1;

void leave(TurnLane& lane, Nanoseconds exit_ns) {
  TurnOperation& operation = lane.operations[symbol].emplace_back();
  operation.operation = Operation::all_reduce;
  operation.enter_ns = exit_ns - 50'000;
  operation.exit_ns = exit_ns;
}

TEST(FineClocks, LanesInStepAreOnTheClockThatAllOthersTell) {
  // On one clock, all leave an operation together now and then. In between, lanes 4 and 5 leave others that have
  // nothing to do with each other, one always as much later.
  constexpr Nanoseconds later_ns = 3'500;
  for (const unsigned seed : nsys_explain::tiers::seeds(10)) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned end) { return static_cast<Nanoseconds>(random() % end); };
    std::vector<TurnLane> lanes(6);
    for (std::size_t l = 0; l < 6; ++l) {
      for (std::size_t other = 0; other < 6; ++other) {
        if (other != l) lanes[l].neighbours.push_back(other);
      }
    }
    for (Nanoseconds step = 0; step < 100; ++step) {
      const Nanoseconds start_ns = 10'000'000 * step;
      for (TurnLane& lane : lanes) leave(lane, start_ns + below(400));
      for (Nanoseconds time_ns = start_ns + 300'000; time_ns < start_ns + 6'000'000; time_ns += 300'000) {
        leave(lanes[4], time_ns + below(400));
        leave(lanes[5], time_ns + later_ns + below(400));
      }
    }
    const std::vector<FineClock> clocks = fine_clocks(lanes, 500'000'000);
    for (const FineClock& clock : clocks)
      EXPECT_LT(std::abs(clock.correction.offset_ns - clocks[0].correction.offset_ns), 200) << seed;
  }
}

TEST(FineClocks, ReachAsFarAsSendsAndReceivesMayMislead) {
  // Chains of them related lanes 0 and 1 to the others, and their ends differ by some 20 us as a habit.
  for (const unsigned seed : nsys_explain::tiers::seeds(10)) {
    const Nanoseconds off_ns = (seed % 2 == 0 ? 1 : -1) * (11'000 + 1'200 * Nanoseconds{seed});
    std::mt19937 random(seed);
    std::vector<TurnLane> lanes(6);
    for (std::size_t l = 0; l < 6; ++l) {
      for (std::size_t other = 0; other < 6; ++other) {
        if (other != l) lanes[l].neighbours.push_back(other);
      }
    }
    for (Nanoseconds step = 0; step < 100; ++step) {
      for (std::size_t l = 0; l < 6; ++l)
        leave(lanes[l], 10'000'000 * step + (l < 2 ? off_ns : 0) + static_cast<Nanoseconds>(random() % 400));
    }
    const std::vector<FineClock> clocks = fine_clocks(lanes, 500'000'000);
    for (std::size_t l = 0; l < 6; ++l) {
      const Nanoseconds at_once_ns = 300'000'000 + (l < 2 ? off_ns : 0);
      EXPECT_LT(std::abs(clocks[l].corrected(at_once_ns) - clocks[5].corrected(300'000'000)), 200) << seed << " " << l;
    }
  }
}

}  // namespace
}  // namespace nsys_explain::collectives
