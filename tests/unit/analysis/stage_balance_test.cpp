#include "analysis/verdict/job_delays.hpp"

#include <gtest/gtest.h>

#include <random>

#include "analysis/problems/find_problems.hpp"
#include "analysis/tables/tables.hpp"
#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using testing::join;
using testing::OneRank;
using testing::table_of;

Grouping stages_of(std::vector<std::string> place_of_rank) {
  return {Level::pipeline_stage, std::move(place_of_rank)};
}

/// Ranks in stages of two, `kernel_ns[stage]` in every bin, give or take a noise of the median's 0.5%.
KernelTime kernel_time(const std::vector<double>& kernel_ns, const std::vector<double>& shared, std::size_t bins,
                       unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(1.0, 0.005);
  KernelTime time;
  time.bins = bins;
  for (std::size_t r = 0; r < 2 * kernel_ns.size(); ++r) {
    time.shared.push_back(shared[r / 2]);
    for (std::size_t b = 0; b < bins; ++b)
      time.kernel_ns.push_back(static_cast<std::int64_t>(kernel_ns[r / 2] * noise(random)));
  }
  return time;
}

std::vector<std::string> overfull(const std::vector<StageBalance>& stages) {
  std::vector<std::string> names;
  for (const StageBalance& stage : stages)
    if (stage.overfull() && stage.p_value < 1e-4) names.push_back(stage.stage);
  return names;
}

const Grouping three_stages = stages_of({"0", "0", "1", "1", "2", "2"});
constexpr double ms = 1e6;

TEST(StageBalance, AStageWithMoreLayersIsOverfull) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto stages = compare_stages(kernel_time({40 * ms, 50 * ms, 40 * ms}, {1, 1, 1}, 16, seed),
                                       std::vector<GpuSpeed>(6), three_stages);
    EXPECT_EQ(overfull(stages), (std::vector<std::string>{"1"}));
    EXPECT_EQ(stages[1].ranks, (std::vector<std::size_t>{2, 3}));
    EXPECT_NEAR(stages[1].surplus, 0.2, 0.01) << "10 of its 50 ms";
  }
}

TEST(StageBalance, StagesAlikeAreBalanced) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    EXPECT_TRUE(overfull(compare_stages(kernel_time({40 * ms, 40 * ms, 40 * ms}, {1, 1, 1}, 12, seed),
                                        std::vector<GpuSpeed>(6), three_stages))
                    .empty());
  }
}

TEST(StageBalance, WhatOnlyOneStageRunsIsUnevenByDesign) {
  // The last stage computes a fifth longer, for kernels of its own: 40 of 48 ms are shared.
  const auto stages = compare_stages(kernel_time({40 * ms, 40 * ms, 48 * ms}, {1, 1, 40.0 / 48}, 16, 1),
                                     std::vector<GpuSpeed>(6), three_stages);
  EXPECT_TRUE(overfull(stages).empty());
  EXPECT_NEAR(static_cast<double>(stages[2].kernel_ns - stages[2].others_kernel_ns), 8 * ms, 0.4 * ms);
}

TEST(StageBalance, ALayerMoreInPlaceOfTheHeadIsBalanced) {
  // Two stages of equal length: one has the head and the loss (10 of 50 ms), the other the layers instead.
  EXPECT_TRUE(overfull(compare_stages(kernel_time({50 * ms, 50 * ms}, {1, 0.8}, 20, 1), std::vector<GpuSpeed>(4),
                                      stages_of({"0", "0", "1", "1"})))
                  .empty());
}

TEST(StageBalance, AnOddMemberOfOneStageMakesNoOtherOverfull) {
  // Rank 0 runs larger kernels than anybody else, so most of what it runs nobody shares.
  for (unsigned seed = 0; seed < 20; ++seed) {
    KernelTime time = kernel_time({40 * ms, 40 * ms, 42 * ms}, {1, 1, 40.0 / 42}, 16, seed);
    time.shared[0] = 0.3;
    for (std::size_t b = 0; b < time.bins; ++b) time.kernel_ns[b] = time.kernel_ns[b] * 13 / 10;
    EXPECT_TRUE(overfull(compare_stages(time, std::vector<GpuSpeed>(6), three_stages)).empty()) << seed;
  }
}

TEST(StageBalance, SlowGpusHaveNoMoreWork) {
  std::vector<GpuSpeed> speeds(6);
  for (const std::size_t r : {2U, 3U}) {
    speeds[r].ratio = 1.25;
    speeds[r].slow = true;
  }
  EXPECT_TRUE(overfull(compare_stages(kernel_time({40 * ms, 50 * ms, 40 * ms}, {1, 1, 1}, 16, 1), speeds, three_stages))
                  .empty());
}

TEST(StageBalance, NeedsTwoStagesAndKnownBins) {
  EXPECT_TRUE(
      compare_stages(kernel_time({40 * ms}, {1}, 8, 1), std::vector<GpuSpeed>(2), stages_of({"0", "0"})).empty());
  KernelTime time = kernel_time({40 * ms, 50 * ms, 40 * ms}, {1, 1, 1}, 16, 1);
  for (std::size_t b = 0; b < 16; ++b) time.kernel_ns[4 * 16 + b] = time.kernel_ns[5 * 16 + b] = 0;
  EXPECT_TRUE(compare_stages(time, std::vector<GpuSpeed>(6), three_stages).empty()) << "nothing is known of stage 2";
}

TEST(SharedKernels, AreThoseOfEqualNameAndShapeOfAnotherStage) {
  std::vector<Table> of_ranks;
  for (int r = 0; r < 4; ++r) {
    OneRank rank;
    rank.kernel("gemm", 0, 600);
    if (r >= 2) rank.kernel("loss", 1000, 1200);
    of_ranks.push_back(table_of(kernel_tables(rank.events()), "kernels_by_launch"));
  }
  const std::vector<std::int32_t> trace_ranks{0, 1, 2, 3};
  const auto shares = shared_kernel_shares(join(of_ranks), trace_ranks, stages_of({"0", "0", "1", "1"}));
  EXPECT_DOUBLE_EQ(shares[0], 1);
  EXPECT_DOUBLE_EQ(shares[3], 0.75) << "600 of 800 ns; that its partner runs the loss, too, does not matter";
}

/// Three trace ranks, each a stage, in 16 steps of 40 ms; the second one's kernels take `longest_ms`, the others' 24
/// ms.
JobReport uneven_stages(double longest_ms) {
  JobReport report;
  report.delay.steps = 16;
  std::vector<StageBalance> stages(3);
  for (std::int32_t r = 0; r < 3; ++r) {
    RankSummary& rank = report.ranks.emplace_back();
    rank.trace_rank = r;
    rank.budget.window_ns = 640'000'000;
    rank.wait_ns = r == 1 ? 20'000'000 : 110'000'000;
    StageBalance& stage = stages[static_cast<std::size_t>(r)];
    stage.stage = name_of_lone_stage(r);
    stage.kernel_ns = r == 1 ? static_cast<Nanoseconds>(longest_ms * ms) : 24'000'000;
    stage.others_kernel_ns = 24'000'000;
  }
  report.tables.push_back(stage_balance_table(stages));
  return report;
}

std::vector<std::string> longest_stages(const JobReport& report) {
  std::vector<std::string> titles;
  for (const Finding& finding : find_problems(report))
    if (finding.id == "longest-stage") titles.push_back(finding.title);
  return titles;
}

TEST(LongestStage, IsToldWhereTheOthersWaitForIt) {
  // 6 of 40 ms in each step.
  const auto titles = longest_stages(uneven_stages(30));
  ASSERT_EQ(titles.size(), 1U);
  EXPECT_NE(titles[0].find("of rank 1 computes 25% longer"), std::string::npos) << titles[0];
  EXPECT_NE(titles[0].find("up to 15.0% of the GPU time"), std::string::npos) << titles[0];
}

TEST(LongestStage, IsNotToldWhereItIsNotWorthIt) {
  EXPECT_TRUE(longest_stages(uneven_stages(25)).empty()) << "4% longer";
  JobReport waits = uneven_stages(30);
  waits.ranks[1].wait_ns = 120'000'000;
  EXPECT_TRUE(longest_stages(waits).empty()) << "nobody waits for it";
  JobReport named = uneven_stages(30);
  named.stragglers.emplace_back().trace_ranks = {1};
  EXPECT_TRUE(longest_stages(named).empty()) << "a verdict says more";
  JobReport short_kernels = uneven_stages(30);
  for (RankSummary& rank : short_kernels.ranks) rank.budget.window_ns *= 10;
  EXPECT_TRUE(longest_stages(short_kernels).empty()) << "1.5% of the time";
}

TEST(LongestStage, HasTheTraceRanksOfItsPlace) {
  JobReport report = uneven_stages(30);
  std::vector<StageBalance> stages(2);
  for (const std::size_t s : {0, 1}) {
    stages[s].stage = std::to_string(s);
    stages[s].kernel_ns = s == 0 ? 36'000'000 : 24'000'000;
    stages[s].others_kernel_ns = s == 0 ? 24'000'000 : 36'000'000;
  }
  Table places = make_table({"rank_places",
                             "",
                             {{"trace_rank", ColumnKind::integer, "", ""},
                              {"level", ColumnKind::text, "", ""},
                              {"place", ColumnKind::text, "", ""}}});
  RowWriter row(places);
  row << std::int64_t{0} << std::string_view("pipeline_stage") << std::string_view("1");
  row << std::int64_t{0} << std::string_view("data_index") << std::string_view("0");
  for (const std::int64_t r : {1, 2}) row << r << std::string_view("pipeline_stage") << std::string_view("0");
  report.ranks[2].wait_ns = 20'000'000;
  report.tables = {stage_balance_table(stages), std::move(places)};
  const auto titles = longest_stages(report);
  ASSERT_EQ(titles.size(), 1U);
  EXPECT_NE(titles[0].find("of ranks 1, 2 computes 50% longer"), std::string::npos) << titles[0];
}

}  // namespace
}  // namespace nsys_explain::analysis
