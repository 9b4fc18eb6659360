#include "nsys_explain/model/table.hpp"

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cereal/archives/binary.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

#include "model/schema/declaration.hpp"
#include "nsys_explain/model/text_column.hpp"

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

using testing::ElementsAre;
using testing::ElementsAreArray;

TEST(TextColumn, HoldsWhatRepeatsOnce) {
  const TextColumn column{"matmul", "matmul", "copy", "", "matmul", ""};
  EXPECT_THAT(column, ElementsAre("matmul", "matmul", "copy", "", "matmul", ""));
  EXPECT_THAT(column.distinct(), ElementsAre("matmul", "copy", ""));
  EXPECT_THAT(column.codes(), ElementsAre(0, 0, 1, 2, 0, 2));
  EXPECT_EQ(column.size(), 6u);
}

TEST(TextColumn, AnEmptyOneHasNoRows) {
  TextColumn column;
  EXPECT_TRUE(column.empty());
  EXPECT_EQ(column.begin(), column.end());
  column.append(TextColumn(), 0, 0);
  EXPECT_TRUE(column.empty());
}

TEST(TextColumn, AppendedRowsBringTheirTextsAlone) {
  TextColumn column{"a", "b"};
  column.append({"c", "b", "d", "b"}, 1, 3);
  EXPECT_THAT(column, ElementsAre("a", "b", "b", "d", "b"));
  EXPECT_THAT(column.distinct(), ElementsAre("a", "b", "d"));
}

TEST(TextColumn, TextsMayHoldAnyByte) {
  const std::string with_nul("a\0b", 3);
  const TextColumn column{with_nul, "a", "\xff"};
  EXPECT_THAT(column, ElementsAre(with_nul, "a", "\xff"));
}

/// Against the texts themselves, one by one, with few and with many distinct ones.
TEST(TextColumn, HoldsWhatAVectorOfTextsHolds) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    const auto texts_of = [&](std::size_t rows) {
      std::vector<std::string> texts;
      for (std::size_t row = 0; row < rows; ++row) {
        texts.push_back("text " + std::to_string(random() % (seed % 2 == 0 ? 7 : 5'000)));
      }
      return texts;
    };
    std::vector<std::string> texts = texts_of(1'000);
    TextColumn column;
    for (const std::string& text : texts) column.push_back(text);
    const std::vector<std::string> others = texts_of(2'000);
    TextColumn other;
    for (const std::string& text : others) other.push_back(text);
    column.append(other, 300, 1'500);
    texts.insert(texts.end(), others.begin() + 300, others.begin() + 1'800);
    EXPECT_THAT(column, ElementsAreArray(texts)) << seed;

    std::stringstream bytes;
    cereal::BinaryOutputArchive{bytes}(column);
    TextColumn read{"something else"};
    cereal::BinaryInputArchive{bytes}(read);
    EXPECT_EQ(read, column) << seed;
    read.push_back(texts.front());
    column.push_back(texts.front());
    EXPECT_EQ(read, column) << seed << ": what was read knows its texts";
  }
}

}  // namespace

}  // namespace nsys_explain
