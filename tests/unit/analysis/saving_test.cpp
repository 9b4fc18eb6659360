#include "analysis/replay/saving.hpp"

#include <gtest/gtest.h>
#include <numeric>

#include <vector>

namespace nsys_explain::analysis {
namespace {

constexpr double ms = 1e6;
constexpr Nanoseconds ns_of_ms = 1'000'000;

TEST(Saving, OfEveryStepItHasAnInterval) {
  // Eight steps of 25 ms; each saves 5 ms, give or take 1: 40 of 200 ms.
  std::vector<double> before(8, 25 * ms), after;
  for (const double saved : {4, 6, 5, 5, 6, 4, 5, 5}) after.push_back(25 * ms - saved * ms);
  const Saving saving = measure_saving(before, after, 40 * ns_of_ms, 200 * ns_of_ms, 0, 0);
  EXPECT_DOUBLE_EQ(saving.share, 0.2);
  EXPECT_EQ(saving.pauses, 0);
  ASSERT_TRUE(saving.low && saving.high);
  EXPECT_NEAR((*saving.low + *saving.high) / 2, 0.2, 1e-12);
  EXPECT_GT(*saving.low, 0.15);
  EXPECT_LT(*saving.high, 0.25);
}

TEST(Saving, OfWhatHappenedOnceItIsATimeWithoutInterval) {
  // 60 steps of 20 ms, one of them with a pause of 900 ms; 900 of 2,100 ms, and a little noise elsewhere.
  std::vector<double> before(60, 20 * ms), after(60, 20 * ms);
  before[17] += 900 * ms;
  before[30] += 0.5 * ms;
  before[31] -= 0.5 * ms;
  const Saving saving = measure_saving(before, after, 900 * ns_of_ms, 2100 * ns_of_ms, 0, 0);
  EXPECT_NEAR(saving.share, 0.4286, 1e-4);
  EXPECT_EQ(saving.pauses, 1);
  EXPECT_EQ(saving.pauses_ns, 900 * ns_of_ms);
  EXPECT_FALSE(saving.low.has_value());
  EXPECT_FALSE(saving.high.has_value());
}

TEST(Saving, ATwinDiffersByAsMuchAsItsStepsVary) {
  // Mended, steps take 17 and 19 ms in turn; one of 60 is another matter.
  std::vector<double> before(41, 20 * ms), after;
  for (int s = 0; s < 40; ++s) after.push_back((s % 4 < 2 ? 17 : 19) * ms);
  after.push_back(60 * ms);
  before.back() = 60 * ms;
  const Saving varied = measure_saving(before, after, 80 * ns_of_ms, 860 * ns_of_ms, 0, 0);
  EXPECT_GT(varied.twin_differs, 0.005);  // one in twenty, by the square root of some twenty blocks
  EXPECT_LT(varied.twin_differs, 0.05);
  const std::vector<double> alike(40, 18 * ms);
  EXPECT_LT(measure_saving(std::vector<double>(40, 20 * ms), alike, 80 * ns_of_ms, 800 * ns_of_ms, 0, 0).twin_differs,
            1e-9);
}

TEST(Saving, TheReplaysErrorWidensTheInterval) {
  const std::vector<double> before(20, 20 * ms), after(20, 18 * ms);
  const Saving saving = measure_saving(before, after, 40 * ns_of_ms, 400 * ns_of_ms, 0.01, 0);
  EXPECT_NEAR(*saving.low, 0.1 - 0.0196, 1e-12);
  EXPECT_NEAR(*saving.high, 0.1 + 0.0196, 1e-12);
}

TEST(Saving, AnErrorOfItsPremisesGrowsWithIt) {
  const std::vector<double> before(20, 20 * ms), after(20, 18 * ms);
  const Saving saving = measure_saving(before, after, 40 * ns_of_ms, 400 * ns_of_ms, 0.02, 0.3);
  // 1.96 * sqrt(0.02^2 + (0.3 * 0.1)^2)
  EXPECT_NEAR(*saving.low, 0.1 - 0.07067, 1e-5);
  EXPECT_NEAR(*saving.high, 0.1 + 0.07067, 1e-5);
}

StepLengths steps_of_20(std::size_t count) {
  StepLengths steps{std::vector<double>(count, 20), std::vector<std::size_t>(count), 0};
  std::iota(steps.steps.begin(), steps.steps.end(), std::size_t{0});
  return steps;
}

TEST(ReplayError, IsThatOfStepsPredictedFromTheOneBefore) {
  // The first lasts from the first activity, and the last has none after it. Of the nine others one is 10% off, two are
  // 5% off, and six are right.
  StepLengths measured = steps_of_20(11), predicted = measured;
  measured.lengths_ns[0] = 25;
  predicted.lengths_ns[2] = predicted.lengths_ns[3] = 21;
  predicted.lengths_ns[5] = 22;
  const ReplayError error = measure_error(measured, predicted);
  EXPECT_EQ(error.steps, 9U);
  EXPECT_EQ(error.median, 0);
  EXPECT_NEAR(error.most, 0.05, 1e-12);
  EXPECT_EQ(measure_error(steps_of_20(9), steps_of_20(9)).steps, 0U);  // too few
  for (std::size_t s = 6; s < 11; ++s) measured.steps[s] += 100;       // another run of steps that are replayed
  EXPECT_EQ(measure_error(measured, predicted).steps, 8U) << "step 5 is not followed by step 106";
}

TEST(Saving, OfAFewPausesItIsTheirSum) {
  std::vector<double> before(60, 20 * ms), after(60, 20 * ms);
  before[17] += 900 * ms;
  before[44] += 100 * ms;  // a ninth of the other: more than a tenth
  const Saving saving = measure_saving(before, after, 1000 * ns_of_ms, 2200 * ns_of_ms, 0, 0);
  EXPECT_EQ(saving.pauses, 2);
  EXPECT_EQ(saving.pauses_ns, 1000 * ns_of_ms);
  // 45.5%, give or take some 87 (a standard error of 41, by Student for 15 blocks): nothing is told.
  EXPECT_FALSE(saving.low.has_value());
}

TEST(Saving, EightPausesTellHowOftenTheyCome) {
  std::vector<double> before(60, 20 * ms), after(60, 20 * ms);
  for (std::size_t i = 0; i < 8; ++i) before[7 * i] += 100 * ms;
  const Saving saving = measure_saving(before, after, 800 * ns_of_ms, 2000 * ns_of_ms, 0, 0);
  EXPECT_EQ(saving.pauses, 0);
  ASSERT_TRUE(saving.low.has_value());
  EXPECT_GT(*saving.low, 0);
}

TEST(Saving, NoShareLeavesTheWhole) {
  // Pauses in three of ten steps make an interval that is wider than the whole.
  std::vector<double> before(10, 10 * ms), after(10, 10 * ms);
  before[3] += 500 * ms;
  before[5] += 200 * ms;
  before[8] += 200 * ms;
  const Saving wide = measure_saving(before, after, 900 * ns_of_ms, 1000 * ns_of_ms, 0, 0);
  EXPECT_DOUBLE_EQ(wide.share, 0.9);
  EXPECT_FALSE(wide.low.has_value() || wide.high.has_value());
  // A replay may take a little longer than the job did.
  const Saving less = measure_saving(after, before, -3 * ns_of_ms, 1000 * ns_of_ms, 0, 0);
  EXPECT_EQ(less.share, 0);
  EXPECT_EQ(*less.low, 0);
  EXPECT_EQ(measure_saving({}, {}, 5, 0, 0, 0).share, 0);
}

}  // namespace
}  // namespace nsys_explain::analysis
