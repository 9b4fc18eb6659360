#include "nsys_explain/analysis/stage_balance.hpp"

#include <gtest/gtest.h>

#include <random>

#include "nsys_explain/analysis/kernels.hpp"
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

}  // namespace
}  // namespace nsys_explain::analysis
