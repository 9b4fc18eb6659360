#include "analysis/compare/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace nsys_explain::analysis {
namespace {

RunProfile run_of(double compute_ns, double wait_ns) {
  RunProfile run;
  run.steps = 10;
  run.step_ns = (compute_ns + wait_ns) / 10;
  run.rank_means_ns = {{"compute_ns", compute_ns}, {"wait_ns", wait_ns}};
  return run;
}

Comparison history_of(std::vector<RunProfile> runs) {
  Comparison comparison;
  comparison.runs = std::move(runs);
  comparison.basis = ComparisonBasis::step;
  return comparison;
}

const Trend& trend_of(const std::vector<Trend>& trends, std::string_view figure) {
  return *std::find_if(trends.begin(), trends.end(), [&](const Trend& trend) { return trend.figure == figure; });
}

TEST(Kendall, CountsOrdersThatAreAsExtreme) {
  // Of 120 orders of five values one rises throughout and one falls throughout.
  EXPECT_NEAR(kendall_p_value(std::vector<double>{1, 2, 3, 4, 5}), 2.0 / 120, 1e-12);
  EXPECT_NEAR(kendall_p_value(std::vector<double>{5, 4, 3, 2, 1}), 2.0 / 120, 1e-12);
  // Of 24 orders of four values 1 has no discordant pair and 3 have one; as many have so few concordant ones.
  EXPECT_NEAR(kendall_p_value(std::vector<double>{1, 2, 4, 3}), 8.0 / 24, 1e-12);
  EXPECT_DOUBLE_EQ(kendall_p_value(std::vector<double>{2, 1, 4, 0, 3}), 1) << "five pairs up, five down";
}

TEST(Kendall, EqualValuesTellNothing) {
  EXPECT_DOUBLE_EQ(kendall_p_value(std::vector<double>{7, 7, 7, 7}), 1);
  // Two pairs up, one equal: of six orders of three values one has no discordant pair, two have one.
  EXPECT_DOUBLE_EQ(kendall_p_value(std::vector<double>{1, 1, 2}), 2.0 / 6);
  EXPECT_DOUBLE_EQ(kendall_p_value(std::vector<double>{1}), 1);
}

TEST(Trends, ASteadyRiseIsFoundWhereItIs) {
  std::vector<RunProfile> runs;
  const double waits[] = {50, 53, 51, 52, 50, 53, 52, 51, 50};
  for (int r = 0; r < 9; ++r) runs.push_back(run_of(1000 + 10 * r, waits[r]));
  const std::vector<Trend> trends = find_trends(history_of(runs), 0.01);
  const Trend& compute = trend_of(trends, "compute_ns");
  EXPECT_EQ(compute.direction, TrendDirection::rising);
  EXPECT_NEAR(*compute.change_per_run, 10.0 / 1040, 1e-12);
  EXPECT_DOUBLE_EQ(*compute.values_ns[2], 1020.0 / 10) << "per step";
  EXPECT_EQ(trend_of(trends, "wait_ns").direction, TrendDirection::none);
  std::reverse(runs.begin(), runs.end());
  EXPECT_EQ(trend_of(find_trends(history_of(runs), 0.01), "compute_ns").direction, TrendDirection::falling);
  EXPECT_EQ(trend_of(find_trends(history_of(runs), 0.5), "compute_ns").direction, TrendDirection::none) << "tolerated";
}

TEST(Trends, FewRunsCannotTellTrendFromChance) {
  std::vector<RunProfile> runs;
  for (int r = 0; r < 4; ++r) runs.push_back(run_of(1000 + 100 * r, 5));
  EXPECT_EQ(trend_of(find_trends(history_of(runs), 0.01), "compute_ns").direction, TrendDirection::too_few_runs);
  runs.resize(2);
  EXPECT_TRUE(find_trends(history_of(runs), 0.01).empty());
}

TEST(Trends, ARunWithoutAFigureIsLeftOut) {
  std::vector<RunProfile> runs;
  for (int r = 0; r < 9; ++r) runs.push_back(run_of(1000 + 20 * r, 5));
  runs[4].rank_means_ns.clear();
  const std::vector<Trend> trends = find_trends(history_of(runs), 0.01);
  const Trend& compute = trend_of(trends, "compute_ns");
  EXPECT_FALSE(compute.values_ns[4].has_value());
  EXPECT_NEAR(*compute.change_per_run, 20.0 / 1080, 1e-12);
  EXPECT_EQ(compute.direction, TrendDirection::rising);
}

TEST(Trends, EqualRunsHaveNoneInNinetyNineOfAHundredHistories) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 1);
  int false_alarms = 0;
  for (int history = 0; history < 1000; ++history) {
    std::vector<RunProfile> runs;
    for (int r = 0; r < 12; ++r) runs.push_back(run_of(1000 + 50 * noise(random), 300 + 20 * noise(random)));
    const std::vector<Trend> trends = find_trends(history_of(runs), 0.0);
    false_alarms += std::any_of(trends.begin(), trends.end(), [](const Trend& trend) {
      return trend.direction == TrendDirection::rising || trend.direction == TrendDirection::falling;
    });
  }
  EXPECT_LE(false_alarms, 20);
}

}  // namespace

}  // namespace nsys_explain::analysis
