#include "analysis/waits/levels.hpp"

#include <gtest/gtest.h>

namespace nsys_explain::analysis {
namespace {

/// Two nodes of four GPUs, four rails of two.
std::vector<Place> two_nodes() {
  const std::vector<Grouping> groupings{{Level::node, {"a", "a", "a", "a", "b", "b", "b", "b"}},
                                        {Level::rail, {"0", "1", "2", "3", "0", "1", "2", "3"}}};
  return list_places(8, groupings);
}

std::vector<std::string> needed(const std::vector<Nanoseconds>& lateness) {
  const std::vector<Place> places = two_nodes();
  const std::vector<Nanoseconds> parts = fit_places(lateness, places);
  std::vector<std::string> names;
  for (std::size_t p = 0; p < places.size(); ++p) {
    if (parts[p] == 0) continue;
    names.push_back(places[p].level == Level::gpu ? std::to_string(places[p].ranks[0]) : places[p].name);
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(Places, AreListedByLevel) {
  const std::vector<Place> places = two_nodes();
  ASSERT_EQ(places.size(), 14U);
  EXPECT_EQ(places[9].ranks, (std::vector<std::size_t>{4, 5, 6, 7}));
  EXPECT_EQ(places[9].name, "b");
  EXPECT_EQ(places[13].ranks, (std::vector<std::size_t>{3, 7}));
  EXPECT_EQ(places[13].level, Level::rail);
}

TEST(Places, OfTheSameTraceRanksAreListedOnce) {
  const std::vector<Grouping> groupings{{Level::node, {"a", "a", "b", "b"}},
                                        {Level::pipeline_stage, {"0", "0", "1", "1"}},
                                        {Level::tensor_index, {"0", "1", "0", "1"}}};
  const std::vector<Place> places = list_places(4, groupings);
  ASSERT_EQ(places.size(), 8U);
  ASSERT_EQ(places[5].also.size(), 1U);
  EXPECT_EQ(places[5].name, "b");
  EXPECT_EQ(places[5].also[0].level, Level::pipeline_stage);
  EXPECT_EQ(places[5].also[0].name, "1");
  EXPECT_TRUE(places[6].also.empty());
}

TEST(Places, AGpuIsAStageByItselfButNoNode) {
  const std::vector<Place> places =
      list_places(2, std::vector<Grouping>{{Level::node, {"a", "b"}}, {Level::pipeline_stage, {"1", "0"}}});
  ASSERT_EQ(places.size(), 2U);
  ASSERT_EQ(places[0].also.size(), 1U);
  EXPECT_EQ(places[0].also[0].name, "1");
}

TEST(Fit, OneSlowGpuIsNotItsNode) {
  EXPECT_EQ(needed({0, 3, 1000, 5, 0, 2, 0, 9}), (Names{"2"}));
}

TEST(Fit, ASlowNodeIsNotFourGpus) {
  EXPECT_EQ(needed({5, 0, 3, 0, 1100, 950, 1000, 1040}), (Names{"b"}));
}

TEST(Fit, ARailIsNeitherNodeNorGpu) {
  EXPECT_EQ(needed({0, 1000, 0, 4, 2, 980, 0, 0}), (Names{"1"}));
}

TEST(Fit, TwoGpusOfDifferentNodes) {
  EXPECT_EQ(needed({0, 1000, 0, 0, 0, 0, 0, 600}), (Names{"1", "7"}));
}

TEST(Fit, ASlowNodeWithAGpuSlowerStill) {
  EXPECT_EQ(needed({0, 0, 0, 0, 1000, 1000, 2500, 1000}), (Names{"6", "b"}));
}

TEST(Fit, NothingLateNothingNeeded) {
  EXPECT_TRUE(needed({0, 0, 0, 0, 0, 0, 0, 0}).empty());
}

TEST(LevelSums, OfEveryPlaceThatHoldsSeveralTraceRanksAndHasAName) {
  std::vector<RankSummary> ranks(4);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].trace_rank = static_cast<std::int32_t>(10 + r);
    ranks[r].wait_ns = std::int64_t{1} << r;
    ranks[r].caused_wait_ns = 100 << r;
  }
  const std::vector<Grouping> groupings{{Level::node, {"b", "b", "a", "a"}},
                                        {Level::rail, {"0", "1", "2", "3"}},  // a place for each: nothing new
                                        {Level::rack, {"r", "", "r", "r"}}};
  const Table table = level_sums_table(ranks, groupings);
  EXPECT_EQ(column<std::string>(table, "level"), (TextColumn{"node", "node", "rack"}));
  EXPECT_EQ(column<std::string>(table, "place"), (TextColumn{"b", "a", "r"}));
  EXPECT_EQ(column<std::int64_t>(table, "first_trace_rank"), (std::vector<std::int64_t>{10, 12, 10}));
  EXPECT_EQ(column<std::int64_t>(table, "trace_ranks"), (std::vector<std::int64_t>{2, 2, 3}));
  EXPECT_EQ(column<std::int64_t>(table, "wait_ns"), (std::vector<std::int64_t>{1 + 2, 4 + 8, 1 + 4 + 8}));
  EXPECT_EQ(column<std::int64_t>(table, "caused_wait_ns"), (std::vector<std::int64_t>{300, 1200, 1300}));
}

}  // namespace
}  // namespace nsys_explain::analysis
