#include "pipeline/read/host_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace nsys_explain::pipeline {
namespace {

using testing::ElementsAre;

Table rows(const std::vector<std::int64_t>& trace_ranks, std::int64_t first_value) {
  Table table =
      make_table({"calls", "", {{"trace_rank", ColumnKind::integer, "", ""}, {"name", ColumnKind::text, "", ""}}});
  RowWriter row(table);
  for (const std::int64_t trace_rank : trace_ranks) row << trace_rank << std::to_string(first_value++);
  return table;
}

std::vector<std::string> names(const Table& table) {
  const auto& texts = std::get<TextColumn>(table.columns[1]);
  return {texts.begin(), texts.end()};
}

TEST(HostRows, StandBetweenThoseOfTraceRanksInTheirOrder) {
  const Table joined = joined_by_trace_rank(rows({0, 0, 2, 5}, 0), rows({1, 1, 4, 6, 7}, 10));
  EXPECT_THAT(std::get<std::vector<std::int64_t>>(joined.columns[0]), ElementsAre(0, 0, 1, 1, 2, 4, 5, 6, 7));
  EXPECT_THAT(names(joined), ElementsAre("0", "1", "10", "11", "2", "12", "3", "13", "14"));
}

TEST(HostRows, OfATableWithoutOthers) {
  EXPECT_THAT(names(joined_by_trace_rank(rows({}, 0), rows({3, 3}, 7))), ElementsAre("7", "8"));
  EXPECT_THAT(names(joined_by_trace_rank(rows({3}, 7), rows({}, 0))), ElementsAre("7"));
}

}  // namespace
}  // namespace nsys_explain::pipeline
