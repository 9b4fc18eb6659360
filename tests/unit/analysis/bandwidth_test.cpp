#include "analysis/waits/bandwidth.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace nsys_explain::analysis {
namespace {

/// An instance over trace ranks [first, first + members) with this size and transfer time.
void add_instance(MatchedBlock& block, std::int32_t first, std::int32_t members, std::int64_t bytes,
                  Nanoseconds transfer_ns) {
  Instance instance;
  instance.first_arrival = static_cast<std::int64_t>(block.arrivals.size());
  instance.arrivals = instance.members = members;
  instance.operation = Operation::all_reduce;
  instance.complete = instance.comparable = true;
  instance.message_bytes = bytes;
  instance.transfer_ns = transfer_ns;
  instance.skew_uncertainty_ns = 100;
  for (std::int32_t m = 0; m < members; ++m)
    block.arrivals.push_back({.enter = {}, .exit = {}, .trace_rank = first + m});
  block.instances.push_back(instance);
}

TEST(Bandwidth, QuantilesAreGoodToAHundredth) {
  BandwidthHistogram histogram;
  for (int i = 1; i <= 1000; ++i) histogram.add(0.1 * i);
  EXPECT_EQ(histogram.count(), 1000);
  EXPECT_NEAR(histogram.quantile(0.5), 50, 0.5);
  EXPECT_NEAR(histogram.quantile(0.1), 10, 0.1);
  EXPECT_NEAR(histogram.quantile(0.9), 90, 0.9);
  EXPECT_EQ(BandwidthHistogram().quantile(0.5), 0);
}

TEST(Bandwidth, WorkedExample) {
  // Four members, 4e9 bytes in 0.1 s: 40 GB/s, on the bus 2 * 3 / 4 times as much. The second takes twice as long.
  MatchedBlock block;
  add_instance(block, 0, 4, 4'000'000'000, 100'000'000);
  add_instance(block, 0, 4, 4'000'000'000, 200'000'000);
  add_instance(block, 0, 4, 4'000'000'000, 100'000'000);
  const std::vector<MatchedBlock> blocks{block};
  const auto groups = transfer_groups(blocks);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].instances, 3);
  EXPECT_EQ(groups[0].transfer_ns, 400'000'000);
  EXPECT_EQ(groups[0].trace_ranks, (std::vector<std::int32_t>{0, 1, 2, 3}));
  const std::vector<std::string> names{"world"};
  const Table table = bandwidth_table(groups, names, {{0, 0}, {1, 0}, {2, 1}, {3, 1}});
  ASSERT_EQ(table.row_count(), 1u);
  EXPECT_NEAR(column<double>(table, "algorithm_bandwidth_gbs")[0], 40, 0.3);
  EXPECT_NEAR(column<double>(table, "bus_bandwidth_gbs")[0], 60, 0.4);
  EXPECT_NEAR(column<double>(table, "bus_bandwidth_p10_gbs")[0], 30, 0.2);
  EXPECT_EQ(column<std::int64_t>(table, "from_bytes")[0], std::int64_t{1} << 31);
  EXPECT_EQ(column<std::int64_t>(table, "nodes")[0], 2);
  EXPECT_TRUE(std::isnan(column<double>(table, "expected_gbs")[0]));
  EXPECT_EQ(column<std::int64_t>(table, "outlier")[0], 0);
}

TEST(Bandwidth, WhatTellsNothingIsLeftOut) {
  MatchedBlock block;
  add_instance(block, 0, 2, 1'000'000, 1'000'000);
  for (int i = 0; i < 5; ++i) add_instance(block, 0, 2, 1'000'000, 1'000'000);
  block.instances[1].comparable = false;
  block.instances[2].feasible = false;
  block.instances[3].message_bytes = -1;
  block.instances[4].complete = false;
  block.instances[5].transfer_ns = 300;  // three standard uncertainties of 100 ns
  const std::vector<MatchedBlock> blocks{block};
  const auto groups = transfer_groups(blocks);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].instances, 1);
}

TEST(Bandwidth, TheSameHoweverBlocksAreSpread) {
  std::vector<MatchedBlock> blocks(3);
  std::vector<MatchedBlock> together(1);
  for (int i = 0; i < 90; ++i) {
    for (MatchedBlock* block : {&blocks[static_cast<std::size_t>(i % 3)], &together[0]}) {
      add_instance(*block, 0, 2, 1'000'000 + 1000 * i, 100'000 + 777 * i);
    }
  }
  std::vector<TransferGroup> parts;
  for (const MatchedBlock& block : blocks) {
    for (TransferGroup& group : transfer_groups(std::span(&block, 1))) parts.push_back(std::move(group));
  }
  const std::vector<std::string> names{"c"};
  const Table spread = bandwidth_table(merge_transfer_groups(parts), names, {});
  const Table whole = bandwidth_table(transfer_groups(together), names, {});
  ASSERT_EQ(spread.row_count(), 2u);
  for (std::size_t c = 0; c < spread.columns.size(); ++c) {
    // Without peers nothing is expected, and nan equals nothing.
    if (spread.schema.columns[c].name == "expected_gbs") continue;
    EXPECT_EQ(spread.columns[c], whole.columns[c]);
  }
}

TEST(Bandwidth, SlowCommunicatorIsAnOutlierAmongItsPeers) {
  std::vector<MatchedBlock> blocks(5);
  for (std::int32_t c = 0; c < 5; ++c) {
    blocks[static_cast<std::size_t>(c)].communicator = c;
    for (int i = 0; i < 10; ++i) {
      add_instance(blocks[static_cast<std::size_t>(c)], 2 * c, 2, 1'000'000, c == 3 ? 200'000 : 100'000 + 500 * c);
    }
  }
  const std::vector<std::string> names{"a", "b", "c", "d", "e"};
  const Table table = bandwidth_table(transfer_groups(blocks), names, {});
  EXPECT_EQ(column<std::int64_t>(table, "outlier"), (std::vector<std::int64_t>{0, 0, 0, 1, 0}));
  EXPECT_NEAR(column<double>(table, "expected_gbs")[3], 10, 0.2);
}

}  // namespace
}  // namespace nsys_explain::analysis
