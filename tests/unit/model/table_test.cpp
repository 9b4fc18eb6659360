#include "nsys_explain/model/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nsys_explain/model/table_extent.hpp"

namespace nsys_explain {
namespace {

Table people() {
  Table table = make_table({"people",
                            "",
                            {{"age", ColumnKind::integer, "", ""},
                             {"size", ColumnKind::real, "m", ""},
                             {"name", ColumnKind::text, "", ""}}});
  RowWriter(table) << std::int64_t{42} << 1.5 << "Ida" << std::int64_t{7} << 1.25 << "Zoë" << std::int64_t{9} << 1.75
                   << "";
  return table;
}

TEST(Table, ChosenRowsAreAppendedInTheirOrder) {
  Table table = people();
  const std::vector<std::size_t> rows{2, 0, 2};
  append_rows(table, people(), rows);
  EXPECT_THAT(column<std::int64_t>(table, "age"), testing::ElementsAre(42, 7, 9, 9, 42, 9));
  EXPECT_THAT(column<double>(table, "size"), testing::ElementsAre(1.5, 1.25, 1.75, 1.75, 1.5, 1.75));
  EXPECT_THAT(column<std::string>(table, "name"), testing::ElementsAre("Ida", "Zoë", "", "", "Ida", ""));
}

TEST(Table, TheExtentCountsBytesOfTexts) {
  EXPECT_EQ(extent_of(people()).rows, 3u);
  EXPECT_THAT(extent_of(people()).longest_texts, testing::ElementsAre(0, 0, 4));
  EXPECT_THAT(extent_of(make_table(people().schema)).longest_texts, testing::ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace nsys_explain
