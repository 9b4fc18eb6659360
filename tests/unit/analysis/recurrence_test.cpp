#include "analysis/window/steps.hpp"

#include <gtest/gtest.h>

#include <string>

namespace nsys_explain::analysis {
namespace {

std::string times(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

/// Kernels by a letter each; the GPU stands still before those of `after_idle`. Capitals work on scalars, or
/// communicate.
std::vector<std::size_t> starts(const std::string& text, const std::string& after_idle = "a") {
  std::vector<OrderedKernel> kernels;
  std::vector<bool> marks(256, false);
  for (const char letter : text) {
    const std::uint32_t idle_ns = after_idle.find(letter) == std::string::npos ? 1'000 : 50'000;
    kernels.push_back({static_cast<std::uint32_t>(letter), idle_ns});
    marks[static_cast<std::size_t>(letter)] = letter >= 'a';
  }
  return recurrences(kernels, marks);
}

TEST(Recurrences, StepsBeginWhereTheGpuHadStoodStill) {
  const std::string step = "abbbbcddd";
  EXPECT_EQ(starts(times(step, 4)), (std::vector<std::size_t>{0, 9, 18, 27}));
  EXPECT_EQ(starts(times(step, 4), "c"), (std::vector<std::size_t>{5, 14, 23, 32}));
}

TEST(Recurrences, LayersAreNoSteps) {
  // Eight layers forward and backward: what is in each of them comes often, but not evenly.
  const std::string step = "a" + times("bcde", 8) + "f" + times("ghij", 8) + "k";
  EXPECT_EQ(starts(times(step, 5)).size(), 5U);
}

TEST(Recurrences, AStepHoldsItsMicroBatches) {
  for (const int micro_batches : {2, 4, 16}) {
    const std::string step = times("a" + times("bc", 6) + "d" + times("ef", 6), micro_batches) + "opp";
    const std::vector<std::size_t> found = starts(times(step, 6), "o");
    ASSERT_EQ(found.size(), 6U) << micro_batches;
    EXPECT_EQ(found[2] - found[1], step.size());
  }
}

TEST(Recurrences, NothingIsToldWhereALongerStepMayBeACoincidence) {
  const std::string step = times("a" + times("bc", 6) + "d" + times("ef", 6), 4) + "opp";
  EXPECT_TRUE(starts(times(step, 3), "o").empty()) << "12 micro-batches, or 3 steps";
}

TEST(Recurrences, WhatIsLoggedNowAndThenMakesNoLongerStep) {
  const std::string step = "a" + times("bc", 10) + "d";
  EXPECT_EQ(starts(times(times(step, 10) + "L", 6)).size(), 60U);
}

TEST(Recurrences, ACaptureMayBeginAndEndWithinAStep) {
  const std::string step = "a" + times("bcde", 4) + "f" + times("gh", 4), whole = times(step, 6);
  EXPECT_EQ(starts(whole.substr(10)), (std::vector<std::size_t>{16, 42, 68, 94, 120}));
  EXPECT_EQ(starts(whole.substr(0, whole.size() - 7)).size(), 6U);
}

TEST(Recurrences, LostRecordsAreNoSteps) {
  const std::string step = "a" + times("bcde", 10) + "f" + times("gh", 10);
  std::string some = times(step, 8);
  some.erase(3 * step.size(), 1);       // the first kernel of the fourth step
  some.erase(5 * step.size() + 20, 2);  // and two others
  const std::vector<std::size_t> found = starts(some);
  ASSERT_EQ(found.size(), 8U);
  EXPECT_NEAR(static_cast<double>(found[3]), 3.0 * static_cast<double>(step.size()), 1);
}

TEST(Recurrences, WhatDoesNotRecurHasNoSteps) {
  EXPECT_TRUE(starts("abcdabcd").empty()) << "twice";
  EXPECT_TRUE(starts("abcdefghijklmnop").empty());
  EXPECT_TRUE(starts("aaaaaaaaaaaa").empty()) << "one kind tells nothing";
  EXPECT_TRUE(starts("").empty());
  // Requests of any length: what they repeat comes evenly, but not what they begin with.
  std::string requests;
  for (const int length : {3, 40, 11, 25, 7, 60, 2, 33, 18, 50, 5, 29})
    requests += "aefgh" + times("bcd", length) + "i";
  EXPECT_TRUE(starts(requests).empty());
}

}  // namespace
}  // namespace nsys_explain::analysis
