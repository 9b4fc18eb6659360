#include <gtest/gtest.h>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain {
namespace {

TableSchema three_columns() {
  return {
      "things",
      "for this test",
      {{"name", ColumnKind::text, "", ""}, {"at_ns", ColumnKind::time, "ns", ""}, {"share", ColumnKind::real, "", ""}}};
}

TEST(RowWriter, FillsColumnsFromLeftToRightRowByRow) {
  Table table = make_table(three_columns());
  RowWriter rows(table);
  rows << "a" << std::int64_t{5} << 0.5;
  rows << "b" << std::int64_t{7} << 0.25;
  EXPECT_EQ(table.row_count(), 2U);
  EXPECT_EQ(column<std::string>(table, "name"), (TextColumn{"a", "b"}));
  EXPECT_EQ(column<std::int64_t>(table, "at_ns"), (std::vector<std::int64_t>{5, 7}));
  EXPECT_EQ(column<double>(table, "share"), (std::vector<double>{0.5, 0.25}));
}

TEST(RowWriter, RefusesAValueThatTheColumnDoesNotHold) {
  Table table = make_table(three_columns());
  RowWriter rows(table);
  EXPECT_THROW(rows << std::int64_t{1}, std::bad_variant_access);
}

TEST(Table, SaysWhichColumnIsMissing) {
  const Table table = make_table(three_columns());
  EXPECT_THROW(column<double>(table, "absent"), std::out_of_range);
  EXPECT_EQ(find_table({table}, "others"), nullptr);
  EXPECT_NE(find_table({table}, "things"), nullptr);
}

}  // namespace
}  // namespace nsys_explain
