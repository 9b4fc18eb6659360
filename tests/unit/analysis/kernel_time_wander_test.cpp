#include "nsys_explain/analysis/kernel_time_wander.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace nsys_explain::analysis {
namespace {

std::vector<std::int64_t> row(std::size_t bins, const std::function<std::int64_t(std::size_t)>& value) {
  std::vector<std::int64_t> values;
  for (std::size_t b = 0; b < bins; ++b) values.push_back(value(b));
  return values;
}

Nanoseconds wander_of(const std::vector<std::int64_t>& values) {
  return kernel_time_wander(values, values.size()).at(0);
}

TEST(KernelTimeWander, IsTheSpreadOfWhatNeighboursHaveInCommon) {
  // Eight steps low, eight high, twice: of 31 pairs of neighbours 14 are both low, 14 both high. Their sums are 20'000
  // from the middle, their differences mostly 0: (1.4826 x 20'000)^2 / 4.
  EXPECT_EQ(wander_of(row(32, [](std::size_t b) { return b / 8 % 2 == 0 ? 1'000'000 : 1'020'000; })), 14'826);
}

TEST(KernelTimeWander, IsNotNoiseOfSingleStepsNorARareEpisode) {
  EXPECT_EQ(wander_of(row(32, [](std::size_t) { return 1'000'000; })), 0);
  EXPECT_EQ(wander_of(row(32, [](std::size_t b) { return b % 2 == 0 ? 1'000'000 : 1'020'000; })), 0);
  EXPECT_EQ(wander_of(row(33, [](std::size_t b) { return b % 3 == 1 ? 1'300'000 : 1'000'000; })), 0);
  EXPECT_EQ(wander_of(row(40, [](std::size_t b) { return b >= 10 && b < 22 ? 1'300'000 : 1'000'000; })), 0);
}

TEST(KernelTimeWander, NeedsNeighboursThatAreKnown) {
  EXPECT_EQ(wander_of({1'000'000}), 0);
  EXPECT_EQ(wander_of({1'000'000, 0, 1'020'000, 0}), 0);
  EXPECT_EQ(kernel_time_wander({}, 0).size(), 0U);
}

/// Of the second of three GPUs that all take 1 ms a bin, but for its ratio.
double p_value_of(std::size_t bins, double ratio, const std::vector<Nanoseconds>& wander_ns) {
  std::vector<std::int64_t> kernel_ns(3 * bins, 1'000'000);
  std::vector<GpuSpeed> speeds(3);
  speeds[1].slow = true;
  speeds[1].ratio = ratio;
  speeds[1].p_value = 1e-200;
  doubt_wandering_speeds(kernel_ns, bins, wander_ns, speeds);
  EXPECT_EQ(speeds[0].p_value, GpuSpeed{}.p_value);
  return speeds[1].p_value;
}

TEST(WanderingSpeeds, ProveNoMoreThanTheirStretchesOfTime) {
  // A wander of 2% over 16 bins, four stretches: the difference of two means is known to 2% x sqrt(2 / 4) = 1.414%.
  // ln 1.06 is 4.120 of these, and Student's t exceeds that with 1.295% (3 degrees of freedom); three ranks to choose.
  EXPECT_NEAR(p_value_of(16, 1.06, {15'000, 90'000, 20'000}), 0.0389, 0.0001);
}

TEST(WanderingSpeeds, ASteadySpeedStaysAsSureAsItsKernels) {
  EXPECT_EQ(p_value_of(16, 1.06, {0, 90'000, 0}), 1e-200);  // what the slow one does alone is its own
  EXPECT_LT(p_value_of(60, 1.06, {500, 500, 500}), 1e-6);
  EXPECT_EQ(p_value_of(1, 1.06, {0, 0, 0}), 1e-200);
}

}  // namespace
}  // namespace nsys_explain::analysis
