#include "analysis/verdict/kernel_speed.hpp"

#include <cmath>
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nsys_explain::analysis {
namespace {

using Times = std::vector<std::int64_t>;

Times row(std::size_t bins, const std::function<std::int64_t(std::size_t)>& value) {
  Times values;
  for (std::size_t b = 0; b < bins; ++b) values.push_back(value(b));
  return values;
}

SpeedWander wander_of(const Times& kernel_ns, const Times& usual_ns) {
  return speed_wander(kernel_ns, usual_ns, kernel_ns.size()).at(0);
}

TEST(SpeedWander, IsTheDeviationOfTheMeansOfStretches) {
  // 18 steps are four stretches of four, and two steps over: 1.00, 1.02, 1.00, 1.02 about 1.01, three degrees of
  // freedom.
  const Times kernel_ns = row(18, [](std::size_t b) { return b / 4 % 2 == 0 ? 1'000'000 : 1'020'000; });
  const SpeedWander wander = wander_of(kernel_ns, Times(18, 1'000'000));
  EXPECT_NEAR(wander.deviation, 0.0115470 / 1.01, 1e-6);
  EXPECT_EQ(wander.freedom, 3);
}

TEST(SpeedWander, OfFewStepsIsFromStretchesEnoughToKnowIt) {
  // From two stretches, one degree of freedom, nothing could be told from chance.
  for (const auto& [steps, freedom] :
       std::initializer_list<std::pair<std::size_t, int>>{{4, 3}, {7, 6}, {9, 3}, {11, 4}})
    EXPECT_EQ(wander_of(Times(steps, 1'000'000), Times(steps, 1'000'000)).freedom, freedom) << steps;
}

TEST(SpeedWander, IsNotThatABinGotMoreKernels) {
  const Times kernel_ns = row(16, [](std::size_t b) { return b < 4 ? 1'200'000 : 900'000; });
  EXPECT_NEAR(wander_of(kernel_ns, kernel_ns).deviation, 0, 1e-12);
  EXPECT_GT(wander_of(kernel_ns, Times(16, 1'000'000)).deviation, 0.01);
}

TEST(SpeedWander, LeavesOutWhatIsNotKnown) {
  const Times kernel_ns = {0, 0, 1'000'000, 0, 1'020'000, 0};
  const SpeedWander wander = wander_of(kernel_ns, {0, 0, 1'000'000, 0, 1'000'000, 0});
  EXPECT_NEAR(wander.deviation, 0.0141421 / 1.01, 1e-6);
  EXPECT_EQ(wander.freedom, 1);
  EXPECT_EQ(wander_of({1'000'000, 0}, {1'000'000, 0}).freedom, 0);
  EXPECT_TRUE(speed_wander({}, {}, 0).empty());
}

TEST(SpeedWander, IsNotWhatAllGpusHaveInCommon) {
  // Three GPUs share a power limit that slows all by 10% in every other stretch; the third wanders by 2% of its own.
  Times kernel_ns;
  for (const double own : {0.0, 0.0, 0.02})
    for (std::size_t b = 0; b < 16; ++b)
      kernel_ns.push_back(std::llround(1e6 * (b / 4 % 2 == 0 ? 1 : 1.1) * (b / 8 == 0 ? 1 : 1 + own)));
  const std::vector<SpeedWander> wander = speed_wander(kernel_ns, Times(48, 1'000'000), 16);
  EXPECT_NEAR(wander[0].deviation, 0, 1e-9);
  EXPECT_NEAR(wander[1].deviation, 0, 1e-9);
  // 1, 1, 1.02, 1.02 about 1.01, held against a middle of three.
  EXPECT_NEAR(wander[2].deviation, 0.0115470 / 1.01 / std::sqrt(2.0 / 3), 1e-6);
}

TEST(SpeedWander, OfATypicalGpuIsNotThatOfOneThatWasSlowForAWhile) {
  // The median of a chi-square variable with three degrees of freedom is 2.366.
  const std::vector<SpeedWander> of_gpus = {{0.01, 3}, {0.09, 3}, {0.02, 3}, {0, 0}};
  const TypicalWander typical = typical_wander(of_gpus);
  EXPECT_NEAR(typical.deviation, 0.02 / std::sqrt(2.366 / 3), 1e-4);
  EXPECT_EQ(typical.freedom, 3);
  EXPECT_EQ(typical.freedom_of_half, 6);
  EXPECT_EQ(typical_wander({}).deviation, 0);
}

TEST(SpeedWander, OfExecutionsWhereNoStepsAreKnown) {
  GpuSpeed speed;
  speed.spread = 0.03;
  speed.executions = 60;  // seven stretches of time
  const std::vector<SpeedWander> wander = spread_of_executions(std::vector<GpuSpeed>{speed, GpuSpeed{}});
  EXPECT_EQ(wander[0].deviation, 0.03);
  EXPECT_EQ(wander[0].freedom, 6);
  EXPECT_EQ(wander[1].freedom, 0);
}

TEST(SpeedWander, LetsTwoGpusDriftApart) {
  // Student's t with two degrees of freedom exceeds 4.3027 with 2.5%.
  EXPECT_NEAR(usual_drift(SpeedWander{0.01, 2}, 0.025), 0.0141421 * 4.3027, 1e-6);
  EXPECT_EQ(usual_drift({}, 0.025), 0);
}

/// Of the second of three GPUs.
GpuSpeed doubted(double ratio, double deviation, int freedom) {
  std::vector<GpuSpeed> speeds(3);
  speeds[1].slow = true;
  speeds[1].ratio = ratio;
  speeds[1].p_value = 1e-200;
  doubt_wandering_speeds({{deviation, 1}, freedom}, speeds);
  EXPECT_EQ(speeds[0].p_value, GpuSpeed{}.p_value);
  EXPECT_FALSE(speeds[0].slow);
  return speeds[1];
}

TEST(WanderingSpeeds, AreNotSlowGpus) {
  // ln 1.06 is 4.120 times 1% x sqrt(2), which Student's t exceeds with 1.295% (3 degrees of freedom); of three ranks.
  const GpuSpeed wandering = doubted(1.06, 0.01, 3);
  EXPECT_NEAR(wandering.p_value, 0.0389, 0.0001);
  EXPECT_FALSE(wandering.slow);
}

TEST(WanderingSpeeds, ASteadySpeedIsSlowByLittle) {
  EXPECT_EQ(doubted(1.025, 0, 3).p_value, 1e-200);
  const GpuSpeed slow = doubted(1.025, 0.0005, 6);
  EXPECT_LT(slow.p_value, 1e-5);
  EXPECT_TRUE(slow.slow);
}

TEST(KernelSlowness, IsAgainstATypicalGpu) {
  // The second GPU takes 1.5 times as long as its peers as a rule, and in its last bin 1.2 times as long as it does.
  GpuSpeed usual, slow;
  slow.ratio = 1.5;
  EXPECT_THAT(kernel_slowness(Times{10, 0, 9, 8, 7, 12}, Times{10, 10, 10, 8, 0, 10}, std::vector{usual, slow}, 3),
              ::testing::Pointwise(::testing::DoubleEq(), {1.0, 0.0, 0.9, 1.5, 0.0, 1.8}));
}

TEST(KernelTimes, OfATypicalBinThatIsKnown) {
  EXPECT_EQ(typical_kernel_times(Times{0, 5, 3, 4, 0, 0, 0, 0}, 4), (Times{4, 0}));
}

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

constexpr std::size_t ten = 10;

GpuSpeed slow_by(double ratio) {
  GpuSpeed speed;
  speed.ratio = ratio;
  speed.slow = true;
  return speed;
}

/// Kernel time of two ranks by bin: `usual` of the first, of the second 1.25 times as much in the bins from `first` on.
std::vector<std::int64_t> two_ranks(const std::vector<std::int64_t>& usual, std::size_t first) {
  std::vector<std::int64_t> kernel_ns = usual;
  for (std::size_t b = 0; b < ten; ++b) kernel_ns.push_back(b < first ? usual[b] : usual[b] * 5 / 4);
  return kernel_ns;
}

TEST(SlowGpuSurplus, OfAGpuThatIsSlowAllAlongIsTheSameInEveryBin) {
  // Longer steps are everybody's.
  const std::vector<std::int64_t> usual{1000, 1000, 4000, 1000, 800, 1000, 1000, 2000, 1000, 1000};
  const std::vector<double> shares = slow_gpu_surplus(two_ranks(usual, 0), ten, std::vector{GpuSpeed{}, slow_by(1.25)});
  for (std::size_t b = 0; b < ten; ++b) {
    EXPECT_EQ(shares[b], 0);
    EXPECT_NEAR(shares[ten + b], 0.2, 1e-9) << b;
  }
}

TEST(SlowGpuSurplus, OfAGpuThatIsSlowNowAndThenLiesInTheBinsInWhichItIs) {
  const std::vector<std::int64_t> usual{1000, 1000, 4000, 1000, 800, 1000, 1000, 2000, 1000, 1000};
  const std::vector<double> shares = slow_gpu_surplus(two_ranks(usual, 4), ten, std::vector{GpuSpeed{}, slow_by(1.25)});
  for (std::size_t b = 0; b < ten; ++b) EXPECT_NEAR(shares[ten + b], b < 4 ? 0 : 0.2, 1e-9) << b;
}

TEST(SlowGpuSurplus, IsNoMoreThanTheGpuIsSlow) {
  // One step in which the rank computes three times as much is not the GPU's doing; bins without kernels have none.
  std::vector<std::int64_t> kernel_ns = two_ranks(std::vector<std::int64_t>(ten, 1000), 0);
  kernel_ns[ten + 3] *= 3;
  kernel_ns[ten + 5] = 0;
  const std::vector<double> shares = slow_gpu_surplus(kernel_ns, ten, std::vector{GpuSpeed{}, slow_by(1.25)});
  for (std::size_t b = 0; b < ten; ++b) EXPECT_NEAR(shares[ten + b], b == 5 ? 0 : 0.2, 1e-9) << b;
}

}  // namespace

}  // namespace nsys_explain::analysis
