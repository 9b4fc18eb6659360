#include "nsys_explain/model/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/schema/declaration.hpp"

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

inline constexpr struct People : schema::Declaration {
  schema::Integer age{*this, "age"};
  schema::Real height{*this, "size", "m", "from heel to crown"};
  schema::Text name{*this, "name"};
  schema::Time born_ns{*this, "born_ns", "ns"};
} declared_people{{"people", "Who is there"}};

TEST(Declaration, ColumnsStandInTheSchemaInTheOrderOfTheirMembers) {
  const TableSchema schema = declared_people.table_schema();
  EXPECT_EQ(schema.name, "people");
  EXPECT_EQ(schema.description, "Who is there");
  const auto is = [](const char* name, ColumnKind kind, const char* unit, const char* description) {
    return testing::AllOf(testing::Field(&ColumnSchema::name, name), testing::Field(&ColumnSchema::kind, kind),
                          testing::Field(&ColumnSchema::unit, unit),
                          testing::Field(&ColumnSchema::description, description));
  };
  EXPECT_THAT(schema.columns,
              testing::ElementsAre(is("age", ColumnKind::integer, "", ""),
                                   is("size", ColumnKind::real, "m", "from heel to crown"),
                                   is("name", ColumnKind::text, "", ""), is("born_ns", ColumnKind::time, "ns", "")));
}

TEST(Declaration, ReadsTheColumnsOfThatNameWhereverTheyStand) {
  std::vector<Table> tables{people()};
  const Table* found = find_table(tables, declared_people);
  ASSERT_EQ(found, tables.data());
  EXPECT_THAT(column(*found, declared_people.age), testing::ElementsAre(42, 7, 9));
  EXPECT_THAT(column(*found, declared_people.height), testing::ElementsAre(1.5, 1.25, 1.75));
  EXPECT_THAT(column(*found, declared_people.name), testing::ElementsAre("Ida", "Zoë", ""));
  EXPECT_THROW(column(*found, declared_people.born_ns), std::out_of_range);  // an older store may lack it
}

}  // namespace
}  // namespace nsys_explain
