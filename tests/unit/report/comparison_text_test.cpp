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

/// A comparison of two runs by this.
Comparison of(Change headline) {
  Comparison comparison;
  comparison.runs.resize(2);
  comparison.headline = std::move(headline);
  return comparison;
}

TEST(ComparisonText, WhatRoundsToNothingHasNoSign) {
  EXPECT_EQ(headline_text(of(step(1e6, 1e6 + 20))),
            "Cannot be judged: a step takes 1.000 ms instead of 1.000 ms (+0.00%, its noise is not known)");
  EXPECT_EQ(change_text(step(1e6, 1e6 - 20)), "+0.00%");
  EXPECT_EQ(change_text(step(1e6, 0.875e6)), "-12.50%");
}

TEST(ComparisonText, MoreIsSlowerInEveryFigure) {
  Change change = step(1e6, 1.25e6);
  change.estimate = RatioEstimate{};
  change.estimate->low = 1.000001;
  change.estimate->high = 1.6;
  Comparison comparison = of(change);
  comparison.verdict = ComparisonVerdict::worse;
  EXPECT_EQ(headline_text(comparison),
            "Slower: a step takes 1.250 ms instead of 1.000 ms (+25.00%, 99% interval +0.00% to +60.00%)");
  comparison.verdict = ComparisonVerdict::same;
  comparison.is_one_run = true;
  EXPECT_EQ(headline_text(comparison), "Nothing changed: both reports hold the same run, a step takes 1.250 ms");
}

TEST(ComparisonText, TellsWhoTakesLongerAndByWhat) {
  Comparison comparison = of(step(1e6, 1.25e6));
  EXPECT_EQ(places_text(comparison), "");
  comparison.changed_places = {{"rank 5 (n1)", {5}, 1e6, 1.3e6, ChangedPart::kernel_speed, 1e6, 1.3e6},
                               {"node n2", {8, 9}, 1e6, 1.2e6, ChangedPart::idle, 0, 0.2e6}};
  EXPECT_EQ(
      places_text(comparison),
      "What changed, per step: rank 5 (n1): kernels take 1.300 ms instead of 1.000 ms (+30.00%) for the same work; node n2: the GPU is idle for 200.0 us instead of 0 ns.");
}

TEST(ComparisonText, TellsTheFirstFindingOfAKindThatTheOtherRunHasNot) {
  Comparison comparison = of(step(1e6, 1.25e6));
  comparison.runs[0].findings = {{"gpu-idle", "medium", "GPUs are idle"}, {"long-waits", "high", "two waits"}};
  comparison.runs[1].findings = {{"low", "low", "hardly anything"},
                                 {"straggler", "high", "rank 5 is late"},
                                 {"gpu-idle", "medium", "GPUs are idle"}};
  EXPECT_EQ(new_finding_text(comparison), "New finding: rank 5 is late. Gone finding: two waits.");
}

}  // namespace
}  // namespace nsys_explain::report
