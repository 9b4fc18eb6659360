#include "analysis/verdict/kernel_speed.hpp"

#include <gtest/gtest.h>

#include <random>

namespace nsys_explain::analysis {
namespace {

constexpr std::int64_t ms = 1'000'000;
constexpr std::size_t bins = 20;

/// 20 steps of 40 ms of kernels; idle for 0.1 ms each, and now and then 1 ms.
std::vector<std::int64_t> usual_idle(std::size_t ranks, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> one_in_five(0, 4);
  std::vector<std::int64_t> idle;
  for (std::size_t i = 0; i < ranks * bins; ++i) idle.push_back(one_in_five(random) == 0 ? ms : ms / 10);
  return idle;
}

std::vector<std::int64_t> kernels(std::size_t ranks) {
  return std::vector<std::int64_t>(ranks * bins, 40 * ms);
}

TEST(HostIdle, ARankWhoseHostIsLateInEveryStepHasASurplus) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::vector<std::int64_t> idle = usual_idle(4, seed);
    for (std::size_t b = 0; b < bins; ++b) idle[2 * bins + b] += 3 * ms;
    const auto surplus = host_idle_surplus(idle, kernels(4), bins);
    for (const std::size_t r : {0U, 1U, 3U}) EXPECT_DOUBLE_EQ(surplus[r], 0);
    EXPECT_NEAR(surplus[2], 3.0 / 3.1, 1e-9) << "3 of 3.1 ms";
  }
}

TEST(HostIdle, PausesOnEveryRankAreNone) {
  for (unsigned seed = 0; seed < 200; ++seed)
    for (const double surplus : host_idle_surplus(usual_idle(4, seed), kernels(4), bins)) EXPECT_DOUBLE_EQ(surplus, 0);
}

TEST(HostIdle, AFewPausesOfOneRankAreNone) {
  std::vector<std::int64_t> idle = usual_idle(8, 1);
  for (std::size_t b = 0; b < bins; ++b) idle[b] = b % 4 == 0 ? 30 * ms : ms / 10;
  EXPECT_DOUBLE_EQ(host_idle_surplus(idle, kernels(8), bins)[0], 0) << "its other steps are as those of the others";
}

TEST(HostIdle, WhatIsShortAgainstTheKernelsIsNone) {
  std::vector<std::int64_t> idle(4 * bins, ms / 10);
  for (std::size_t b = 0; b < bins; ++b) idle[b] += ms * 3 / 10;
  EXPECT_DOUBLE_EQ(host_idle_surplus(idle, kernels(4), bins)[0], 0) << "0.3 of 40 ms";
  EXPECT_TRUE(host_idle_surplus({}, {}, 0).empty());
}

}  // namespace
}  // namespace nsys_explain::analysis
