#include "serve/table_query.hpp"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nsys_explain/model/time.hpp"
#include "serve/refusal.hpp"

namespace nsys_explain::serve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Parameters = std::vector<std::pair<std::string, std::string>>;

/// rank 0..4, wait 30 10 - 20 10, share 0.5 nan 0.25 0.5 -1, name b a b c "".
Table sample() {
  Table table = make_table({"sample",
                            "",
                            {{"rank", ColumnKind::integer, "", ""},
                             {"wait_ns", ColumnKind::integer, "ns", ""},
                             {"share", ColumnKind::real, "", ""},
                             {"name", ColumnKind::text, "", ""}}});
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  RowWriter rows(table);
  rows << std::int64_t{0} << std::int64_t{30} << 0.5 << "b";
  rows << std::int64_t{1} << std::int64_t{10} << nothing << "a";
  rows << std::int64_t{2} << no_time << 0.25 << "b";
  rows << std::int64_t{3} << std::int64_t{20} << 0.5 << "c";
  rows << std::int64_t{4} << std::int64_t{10} << -1.0 << "";
  return table;
}

ColumnLookup columns_of(const Table& table) {
  return [&](const std::string& name) -> const ColumnData& { return table.columns[table.schema.index_of(name)]; };
}

std::vector<std::int64_t> rows_of(const Parameters& parameters) {
  const Table table = sample();
  return chosen_rows(columns_of(table), parse_table_query(parameters), 5).rows;
}

TEST(TableQuery, ConditionsMustAllHold) {
  EXPECT_THAT(rows_of({{"where", "wait_ns=10"}}), ElementsAre(1, 4));
  EXPECT_THAT(rows_of({{"where", "wait_ns!=10"}}), ElementsAre(0, 3));  // a missing one is no other
  EXPECT_THAT(rows_of({{"where", "wait_ns>=20"}}), ElementsAre(0, 3));
  EXPECT_THAT(rows_of({{"where", "wait_ns>20"}}), ElementsAre(0));
  EXPECT_THAT(rows_of({{"where", "wait_ns<=10"}}), ElementsAre(1, 4));
  EXPECT_THAT(rows_of({{"where", "wait_ns<10.5"}}), ElementsAre(1, 4));
  EXPECT_THAT(rows_of({{"where", "share<0.5"}}), ElementsAre(2, 4));
  EXPECT_THAT(rows_of({{"where", "share=0.5"}, {"where", "rank>0"}}), ElementsAre(3));
  EXPECT_THAT(rows_of({{"where", "name=b"}}), ElementsAre(0, 2));
  EXPECT_THAT(rows_of({{"where", "name="}}), ElementsAre(4));
  EXPECT_THAT(rows_of({{"where", "name!=b"}}), ElementsAre(1, 3, 4));
  EXPECT_THAT(rows_of({{"where", "name>=b"}}), ElementsAre(0, 2, 3));
  EXPECT_THAT(rows_of({{"where", "name~"}}), ElementsAre(0, 1, 2, 3, 4));
}

TEST(TableQuery, LargeIntegersAreComparedExactly) {
  Table table = make_table({"t", "", {{"hash", ColumnKind::integer, "", ""}}});
  RowWriter(table) << std::int64_t{9007199254740993};  // no double is this
  const auto matching = [&](const char* condition) {
    return chosen_rows(columns_of(table), parse_table_query({{"where", condition}}), 1).matching;
  };
  EXPECT_EQ(matching("hash=9007199254740993"), 1);
  EXPECT_EQ(matching("hash=9007199254740992"), 0);
}

TEST(TableQuery, OrderIsStableAndWhatIsMissingComesLast) {
  EXPECT_THAT(rows_of({{"order", "wait_ns"}}), ElementsAre(1, 4, 3, 0, 2));
  EXPECT_THAT(rows_of({{"order", "-wait_ns"}}), ElementsAre(0, 3, 1, 4, 2));
  EXPECT_THAT(rows_of({{"order", "-share,-rank"}}), ElementsAre(3, 0, 2, 4, 1));
  EXPECT_THAT(rows_of({{"order", "name,rank"}}), ElementsAre(4, 1, 0, 2, 3));
  EXPECT_THAT(rows_of({{"order", "-name"}}), ElementsAre(3, 0, 2, 1, 4));
}

TEST(TableQuery, OffsetAndLimitCutWhatIsInOrder) {
  EXPECT_THAT(rows_of({{"offset", "1"}, {"limit", "2"}}), ElementsAre(1, 2));
  EXPECT_THAT(rows_of({{"order", "-wait_ns"}, {"offset", "1"}, {"limit", "2"}}), ElementsAre(3, 1));
  EXPECT_THAT(rows_of({{"offset", "9"}}), IsEmpty());
  EXPECT_THAT(rows_of({{"limit", "0"}}), IsEmpty());
  const Table table = sample();
  const ChosenRows chosen = chosen_rows(columns_of(table), parse_table_query({{"where", "name=b"}, {"limit", "1"}}), 5);
  EXPECT_EQ(chosen.matching, 2);
  EXPECT_THAT(chosen.rows, ElementsAre(0));
}

TEST(TableQuery, RefusesWhatHasNoMeaning) {
  for (const Parameters& parameters : {Parameters{{"limit", "x"}},
                                       {{"limit", "-1"}},
                                       {{"limit", "50001"}},
                                       {{"limit", "99999999999999999999"}},
                                       {{"limit", ""}},
                                       {{"offset", "1.5"}},
                                       {{"wher", "a=b"}},
                                       {{"where", "rank"}},
                                       {{"where", "=3"}},
                                       {{"where", "a b=3"}},
                                       {{"where", "rank!3"}},
                                       {{"where", ""}},
                                       Parameters(17, {"where", "rank=1"}),
                                       {{"order", "a,a,a,a,a,a,a,a,a"}}}) {
    EXPECT_THROW(parse_table_query(parameters), Refusal) << parameters.front().first << parameters.front().second;
  }
  for (const char* condition : {"rank=x", "rank=", "rank~1", "share=0.5x"}) {
    EXPECT_THROW(rows_of({{"where", condition}}), Refusal) << condition;
  }
}

TEST(TableQuery, NamesColumnsThatAreNotThere) {
  const TableSchema schema = sample().schema;
  EXPECT_NO_THROW(check_columns(schema, parse_table_query({{"where", "rank=1"}, {"order", "name,rank"}})));
  for (const Parameters& parameters :
       {Parameters{{"columns", "rank,lion"}}, {{"order", "-lion"}}, {{"where", "lion=1"}}}) {
    try {
      check_columns(schema, parse_table_query(parameters));
      ADD_FAILURE() << parameters.front().first;
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.problem(), "table sample has no column 'lion'");
      EXPECT_EQ(refusal.what_to_do(), "its columns are: rank, wait_ns, share, name");
      EXPECT_EQ(refusal.status(), 400);
    }
  }
}

}  // namespace
}  // namespace nsys_explain::serve
