#include "collectives/layout.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "simulation/job_plan.hpp"
#include "unit/collectives/inferred_job.hpp"

namespace nsys_explain::collectives::testing {
namespace {

using synth::JobPlan;

JobPlan plan_of(std::uint64_t seed, const std::function<void(JobPlan&)>& change) {
  JobPlan plan;
  plan.seed = seed;
  plan.workload.layers = 3;
  plan.workload.steps = 8;
  plan.clocks.drift_max_ppm = 20;
  change(plan);
  return synth::complete_plan(plan);
}

/// Processes that all do the same, each with one stream, on clocks that nothing relates; some are late by seconds.
class OneCommunicator : public ::testing::TestWithParam<std::tuple<int, Operation, double>> {};

TEST_P(OneCommunicator, IsMatchedHoweverEndsScatter) {
  const auto [processes, operation, factor] = GetParam();
  for (const std::uint64_t seed : {1U, 2U}) {
    const InferredScore score = infer_simulated(plan_of(seed, [&](JobPlan& plan) {
      plan.layout = {.nodes = 1, .gpus_per_node = processes};
      if (operation != Operation::all_reduce)
        plan.workload.data_parallel_style = synth::DataParallelStyle::fully_sharded;
      plan.export_style.nsys_version = "2025.5";
      plan.clocks.utc_offset_max_ns = 3'000'000'000;
      plan.network.end_jitter_of[operation] = factor;
      plan.network.heavy_tails = true;
      plan.network.end_bias_max_ns = 3'000;
      for (int rank = 0; rank < processes; ++rank)
        plan.faults.push_back(
            synth::parse_fault(fmt::format("late_host:rank={},pause={}ms,period={}", rank, 400 * rank, 2 + rank)));
    }));
    EXPECT_EQ(score.matched, score.present) << score;
    EXPECT_EQ(score.withheld, 0) << score;
    EXPECT_EQ(score.wrong_pairs, 0) << score;
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, OneCommunicator,
                         ::testing::Combine(::testing::Values(2, 3, 4),
                                            ::testing::Values(Operation::all_reduce, Operation::all_gather,
                                                              Operation::reduce_scatter),
                                            ::testing::Values(1.0, 5.0, 50.0)));

/// Four tensor groups and two data groups, each on a stream of its own: sequences are equal across groups.
TEST(Layout, GroupsWithEqualSequencesArePartedByWhenTheyEnd) {
  for (const std::uint64_t seed : {11U, 12U, 13U}) {
    const InferredScore score = infer_simulated(plan_of(seed, [](JobPlan& plan) { plan.layout.tensor_parallel = 2; }));
    EXPECT_EQ(score.wrong_pairs, 0) << score;
    EXPECT_GE(score.share(), 0.94) << score;  // the few all-reduces of all ranks are withheld
  }
}

TEST(Layout, StagesOfAPipelineAreLinkedThroughTheirExchanges) {
  const InferredScore score = infer_simulated(
      plan_of(21, [](JobPlan& plan) { plan.layout = {.nodes = 1, .gpus_per_node = 4, .pipeline_parallel = 4}; }));
  EXPECT_EQ(score.wrong_pairs, 0) << score;
  EXPECT_GE(score.share(), 0.995) << score;
}

TEST(Layout, RaggedCapturesWithLostRecordsAreMatched) {
  for (const std::uint64_t seed : {31U, 32U, 33U}) {
    const InferredScore score = infer_simulated(plan_of(seed, [](JobPlan& plan) {
      plan.layout.tensor_parallel = 2;
      plan.workload.steps = 16;
      plan.capture.drop_share = 0.01;
      plan.capture.ragged_share = 0.2;
    }));
    EXPECT_EQ(score.wrong_pairs, 0) << score;
    EXPECT_GE(score.share(), 0.92) << score;
  }
}

/// Several communicators on one stream: nothing connects the tensor groups that are found.
TEST(Layout, SharedStreamsAreWithheld) {
  for (const std::uint64_t seed : {41U, 42U, 43U}) {
    const InferredScore score = infer_simulated(plan_of(seed, [](JobPlan& plan) {
      plan.layout.tensor_parallel = 2;
      plan.workload.steps = 12;
      plan.workload.shared_nccl_stream = true;
    }));
    EXPECT_EQ(score.wrong_pairs, 0) << score;
    EXPECT_EQ(score.matched, 0) << score;
  }
}

}  // namespace
}  // namespace nsys_explain::collectives::testing
