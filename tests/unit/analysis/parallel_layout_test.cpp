#include "analysis/waits/parallel_layout.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace nsys_explain::analysis {
namespace {

using Ranks = std::vector<std::size_t>;

LayoutCommunicator collective(Ranks ranks, std::int64_t instances, bool blocking) {
  return {std::move(ranks), {}, instances, 0, blocking ? instances : 0};
}

LayoutCommunicator exchanges(Ranks ranks, std::int64_t instances) {
  return {std::move(ranks), {}, instances, instances, instances};
}

/// By level: the place of each trace rank, one digit each.
std::map<Level, std::string> layout(std::size_t ranks, const std::vector<LayoutCommunicator>& communicators) {
  std::map<Level, std::string> found;
  for (const Grouping& grouping : layout_groupings(ranks, communicators))
    for (const std::string& place : grouping.place_of_rank) found[grouping.level] += place;
  return found;
}

using Layout = std::map<Level, std::string>;

/// Tensor 2 x data 2 x pipeline 2: ranks 0 1 | 2 3 are stage 0, tensor partners side by side.
std::vector<LayoutCommunicator> cube() {
  std::vector<LayoutCommunicator> job{collective({0, 1, 2, 3, 4, 5, 6, 7}, 10, true)};
  for (std::size_t r : {0U, 2U, 4U, 6U}) job.push_back(collective({r, r + 1}, 400, true));
  for (std::size_t r : {0U, 1U, 4U, 5U}) job.push_back(collective({r, r + 2}, 80, false));
  for (std::size_t r : {0U, 1U, 2U, 3U}) job.push_back(exchanges({r, r + 4}, 160));
  return job;
}

TEST(ParallelLayout, TensorDataAndPipeline) {
  EXPECT_EQ(layout(8, cube()), (Layout{{Level::pipeline_stage, "00001111"},
                                       {Level::tensor_index, "01010101"},
                                       {Level::data_index, "00110011"}}));
}

TEST(ParallelLayout, GroupsOfExpertsAreNoTensorGroups) {
  // Experts are divided among four of eight data-parallel ranks: all-to-alls in every layer, for which compute waits.
  std::vector<LayoutCommunicator> job{collective({0, 1, 2, 3, 4, 5, 6, 7}, 40, false)};
  for (std::size_t r : {0U, 4U}) {
    job.push_back(collective({r, r + 1, r + 2, r + 3}, 960, true));
    job.back().all_to_alls = 950;
  }
  EXPECT_EQ(layout(8, job), (Layout{{Level::expert_index, "01230123"}}));
  // With the same groups' gradients besides there is still one index, and the tensor group is the other one.
  std::vector<LayoutCommunicator> cube_of_experts = cube();
  for (std::size_t i = 5; i < 9; ++i) {
    cube_of_experts[i].instances = 240;
    cube_of_experts[i].all_to_alls = 160;
  }
  EXPECT_EQ(layout(8, cube_of_experts), (Layout{{Level::pipeline_stage, "00001111"},
                                                {Level::expert_index, "00110011"},
                                                {Level::tensor_index, "01010101"}}));
}

TEST(ParallelLayout, CommunicatorsMadeAnewAreTheSameGroups) {
  std::vector<LayoutCommunicator> job = cube();
  const std::vector<LayoutCommunicator> again = job;
  job.insert(job.end(), again.begin(), again.end());
  EXPECT_EQ(layout(8, job), layout(8, cube()));
}

TEST(ParallelLayout, NumbersOfTheCommunicatorCountNotTraceRanks) {
  // The last rank of the job is the first of the pipeline.
  std::vector<LayoutCommunicator> job{exchanges({0, 2}, 10), exchanges({1, 3}, 10)};
  for (LayoutCommunicator& pipeline : job) pipeline.numbers = {1, 0};
  EXPECT_EQ(layout(4, job), (Layout{{Level::pipeline_stage, "1100"}}));
}

TEST(ParallelLayout, PairsOfNeighboursChainToAPipeline) {
  // Four stages of two, each pair of neighbours with a communicator of its own, and, interleaved, last to first.
  std::vector<LayoutCommunicator> job;
  for (std::size_t r = 0; r < 6; ++r) job.push_back(exchanges({r, r + 2}, 50));
  for (std::size_t r = 0; r < 2; ++r) job.push_back(exchanges({r, r + 6}, 25));
  for (std::size_t r = 0; r < 8; r += 2) job.push_back(collective({r, r + 1}, 3, true));
  EXPECT_EQ(layout(8, job), (Layout{{Level::pipeline_stage, "00112233"}, {Level::data_index, "01010101"}}))
      << "three operations a rank are fewer than its exchanges: gradients";
}

TEST(ParallelLayout, ChainsThatATensorGroupHoldsInStepAreNotOne) {
  // 0 2 4 6 and 1 3 5 7 exchange at the same moments, so that without payload they look like one communicator.
  std::vector<LayoutCommunicator> job{exchanges({0, 1, 2, 3, 4, 5, 6, 7}, 640)};
  for (std::size_t r : {0U, 2U, 4U, 6U}) job.push_back(collective({r, r + 1}, 100, true));
  EXPECT_EQ(layout(8, job), (Layout{{Level::tensor_index, "01010101"}}));
}

TEST(ParallelLayout, OneCommunicatorThatMostlyExchangesIsAPipeline) {
  LayoutCommunicator all = exchanges({0, 1, 2, 3}, 480);
  all.instances += 17;
  EXPECT_EQ(layout(4, {all}), (Layout{{Level::pipeline_stage, "0123"}}));
  LayoutCommunicator two = exchanges({0, 1}, 480);
  two.instances += 17;
  EXPECT_EQ(layout(2, {two}), Layout{}) << "may be all-to-all";
  all.pair_exchanges = 17;
  EXPECT_EQ(layout(4, {all}), Layout{});
}

TEST(ParallelLayout, ExchangesOfNeighbouringExpertsAreNoPipeline) {
  // All-to-all between two is two sends and receives, too; stages are farther apart.
  std::vector<LayoutCommunicator> job;
  for (std::size_t r : {0U, 2U, 4U, 6U}) job.push_back(exchanges({r, r + 1}, 500));
  for (std::size_t r : {0U, 1U, 2U, 3U}) job.push_back(exchanges({r, r + 4}, 160));
  EXPECT_EQ(layout(8, job), (Layout{{Level::pipeline_stage, "00001111"}}));
}

TEST(ParallelLayout, ShardsWhoseTransfersHideBehindComputeAreData) {
  // Sharded in fours, replicated in twos: two families, both of data.
  std::vector<LayoutCommunicator> job{collective({0, 1, 2, 3}, 300, false), collective({4, 5, 6, 7}, 300, false)};
  for (std::size_t r : {0U, 1U, 2U, 3U}) job.push_back(collective({r, r + 4}, 20, true));
  EXPECT_EQ(layout(8, job), (Layout{{Level::data_index, "01230123"}}));
}

TEST(ParallelLayout, TiedEmbeddingsOfFirstAndLastStageAreNoTensorGroup) {
  // Two stages, so first and last share their exchanges' communicator, and sum up the embedding's gradients on it.
  std::vector<LayoutCommunicator> job;
  for (std::size_t r : {0U, 1U}) {
    job.push_back(exchanges({r, r + 2}, 40));
    job.push_back(collective({r, r + 2}, 10, true));
  }
  EXPECT_EQ(layout(4, job), (Layout{{Level::pipeline_stage, "0011"}}));
  for (std::size_t r : {0U, 2U}) job.push_back(collective({r, r + 1}, 30, false));
  EXPECT_EQ(layout(4, job), (Layout{{Level::pipeline_stage, "0011"}, {Level::data_index, "0101"}}));
}

TEST(ParallelLayout, TheWholeJobIsNoGroup) {
  EXPECT_TRUE(layout(8, {collective({0, 1, 2, 3, 4, 5, 6, 7}, 100, false)}).empty());
  EXPECT_TRUE(layout(8, {}).empty());
  EXPECT_TRUE(layout(0, {}).empty());
}

TEST(ParallelLayout, GroupsThatLeaveRanksOutSayNothing) {
  // Embeddings shared by first and last stage, a communicator that never did anything, groups of unequal size.
  EXPECT_TRUE(layout(8, {collective({0, 6}, 10, true), collective({1, 7}, 10, true)}).empty());
  EXPECT_TRUE(layout(4, {collective({0, 1}, 10, true), collective({2, 3}, 0, true)}).empty());
  EXPECT_TRUE(layout(5, {collective({0, 1}, 10, true), collective({2, 3, 4}, 10, true)}).empty());
}

}  // namespace
}  // namespace nsys_explain::analysis
