#include "nsys_explain/model/collective.hpp"

#include <gtest/gtest.h>

#include "nsys_explain/model/launch_index.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain {
namespace {

TEST(MessageSize, FollowsNcclTests) {
  // 8 members, 1 MiB per call: an all-reduce moves the buffer, an all-gather fills one of 8 MiB.
  EXPECT_EQ(message_size_bytes(Operation::all_reduce, 1 << 20, 8), 1 << 20);
  EXPECT_EQ(message_size_bytes(Operation::all_gather, 1 << 20, 8), 8 << 20);
  EXPECT_EQ(message_size_bytes(Operation::reduce_scatter, 1 << 20, 8), 8 << 20);
  EXPECT_EQ(message_size_bytes(Operation::all_to_all, 1 << 20, 8), 8 << 20);
  EXPECT_EQ(message_size_bytes(Operation::broadcast, 1 << 20, 8), 1 << 20);
  EXPECT_EQ(message_size_bytes(Operation::all_gather, -1, 8), -1);
}

TEST(BusBandwidth, FactorsOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(Operation::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(Operation::all_gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(Operation::reduce_scatter, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(Operation::broadcast, 4), 1);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(Operation::all_reduce, 1), 0);
}

TEST(LaunchIndex, FindsTheLatestCallNotAfterTheActivity) {
  // Correlation id 5 was used twice: the 32-bit counter wrapped.
  const ApiCalls calls{{.start_ns = 10, .end_ns = 12, .correlation_id = 5},
                       {.start_ns = 20, .end_ns = 22, .correlation_id = 3},
                       {.start_ns = 90, .end_ns = 92, .correlation_id = 5},
                       {.start_ns = 95, .end_ns = 96, .correlation_id = 0}};
  const LaunchIndex index(calls);
  EXPECT_EQ(index.number_of(5, 50), 0U);
  EXPECT_EQ(index.number_of(5, 90), 2U);
  EXPECT_EQ(index.number_of(3, 50), 1U);
  EXPECT_EQ(index.find(3, 50)->start_ns, 20);
  EXPECT_FALSE(index.find(4, 50));
  EXPECT_FALSE(index.find(0, 99)) << "0 means that none was recorded";
}

TEST(LaunchIndex, ActivityBeforeItsCallStillFindsIt) {
  // The clocks of GPU and host differ by up to microseconds.
  const ApiCalls calls{{.start_ns = 10, .end_ns = 12, .correlation_id = 5}};
  EXPECT_EQ(LaunchIndex(calls).number_of(5, 8), 0U);
}

TEST(Table, HasTheRightTypePerColumn) {
  Table table = make_table({"t",
                            "",
                            {{"a", ColumnKind::integer, "", ""},
                             {"b", ColumnKind::real, "", ""},
                             {"c", ColumnKind::text, "", ""},
                             {"d", ColumnKind::text, "", ""}}});
  ASSERT_EQ(table.columns.size(), 4U);
  EXPECT_TRUE(std::holds_alternative<std::vector<std::int64_t>>(table.columns[0]));
  EXPECT_TRUE(std::holds_alternative<std::vector<double>>(table.columns[1]));
  EXPECT_TRUE(std::holds_alternative<TextColumn>(table.columns[2]));
  EXPECT_TRUE(std::holds_alternative<TextColumn>(table.columns[3]));
  EXPECT_EQ(table.row_count(), 0U);
  std::get<0>(table.columns[0]).push_back(7);
  EXPECT_EQ(table.row_count(), 1U);
}

}  // namespace
}  // namespace nsys_explain
