#include "pipeline/read/table_join.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace nsys_explain::pipeline {
namespace {

using testing::ElementsAre;

Table table_of(const std::string& name, std::vector<std::int64_t> values) {
  Table table = make_table({name, "", {{"value", ColumnKind::integer, "", ""}}});
  table.columns.front() = std::move(values);
  return table;
}

std::vector<JoinedTable> joined(const std::vector<std::pair<std::int32_t, std::vector<Table>>>& of_ranks) {
  TableJoin join;
  for (const auto& [trace_rank, tables] : of_ranks) join.add(trace_rank, tables);
  return std::move(join).take();
}

const std::vector<std::int64_t>& numbers(const Table& table, std::size_t column) {
  return std::get<std::vector<std::int64_t>>(table.columns[column]);
}

/// Trace ranks 0 to 3, of which one tool rank has 0 and 3, and the other 1 and 2: as if one had all.
TEST(TableJoin, HowManyToolRanksJoinedDoesNotMatter) {
  const Table a0 = table_of("a", {1, 2}), b0 = table_of("b", {}), a1 = table_of("a", {3}), c1 = table_of("c", {4}),
              b2 = table_of("b", {5}), c3 = table_of("c", {6, 7}), b3 = table_of("b", {8});
  std::vector<JoinedTable> parts = joined({{1, {c1, a1}}, {2, {b2}}});
  for (JoinedTable& part : joined({{0, {a0, b0}}, {3, {c3, b3}}})) parts.push_back(std::move(part));
  TableJoin join;
  join.add(std::move(parts));
  const std::vector<JoinedTable> all = std::move(join).take();
  const std::vector<JoinedTable> alone = joined({{0, {a0, b0}}, {1, {c1, a1}}, {2, {b2}}, {3, {c3, b3}}});
  ASSERT_EQ(all.size(), 3U);
  ASSERT_EQ(alone.size(), 3U);
  const std::vector<std::string> names = {"a", "b", "c"};  // c is new with trace rank 1, after a and b
  for (std::size_t t = 0; t < all.size(); ++t) {
    EXPECT_EQ(all[t].rows.schema.name, names[t]);
    EXPECT_EQ(alone[t].rows.schema.name, names[t]);
    EXPECT_EQ(all[t].rows.columns, alone[t].rows.columns) << names[t];
  }
  EXPECT_THAT(numbers(all[0].rows, 0), ElementsAre(0, 0, 1));
  EXPECT_THAT(numbers(all[0].rows, 1), ElementsAre(1, 2, 3));
  EXPECT_THAT(numbers(all[1].rows, 0), ElementsAre(2, 3));
  EXPECT_THAT(numbers(all[1].rows, 1), ElementsAre(5, 8));
  EXPECT_THAT(numbers(all[2].rows, 1), ElementsAre(4, 6, 7));
}

TEST(TableJoin, TablesOfOtherColumnsAreRefused) {
  Table other = table_of("a", {1});
  other.schema.columns.own().front().name = "another";
  TableJoin join;
  join.add(0, {table_of("a", {1})});
  EXPECT_THROW(join.add(1, {other}), std::runtime_error);
  TableJoin of_parts;
  of_parts.add(joined({{0, {table_of("a", {1})}}}));
  EXPECT_THROW(of_parts.add(joined({{1, {other}}})), std::runtime_error);
}

}  // namespace
}  // namespace nsys_explain::pipeline
