#include "report/comparison_text.hpp"

#include <gtest/gtest.h>

namespace nsys_explain::report {
namespace {

Change step(double base, double current) {
  Change change;
  change.topic = "step";
  change.base = base;
  change.current = current;
  return change;
}

TEST(ComparisonText, WhatRoundsToNothingHasNoSign) {
  EXPECT_EQ(gain_text(step(1e6, 1e6 + 20)), "gain +0.00%, its noise is not known");
  EXPECT_EQ(gain_text(step(1e6, 1e6 - 20)), "gain +0.00%, its noise is not known");
  EXPECT_EQ(change_text(step(1e6, 1e6 - 20)), "+0.00%");
  // 1 / 1.0001 - 1 = -0.009999%.
  EXPECT_EQ(gain_text(step(1e6, 1e6 + 100)), "gain -0.01%, its noise is not known");
  EXPECT_EQ(change_text(step(1e6, 0.875e6)), "-12.50%");
}

TEST(ComparisonText, TheIntervalOfAGainIsThatOfTheTimeUpsideDown) {
  Change change = step(1e6, 1.25e6);
  change.estimate = RatioEstimate{};
  change.estimate->low = 1.000001;
  change.estimate->high = 1.6;
  EXPECT_EQ(gain_text(change), "gain -20.00% (99% interval -37.50% to +0.00%)");
}

}  // namespace
}  // namespace nsys_explain::report
