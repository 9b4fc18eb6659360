#include "nsys_explain/model/fold_rows.hpp"

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace nsys_explain {
namespace {

using ::testing::ElementsAre;

/// What three ranks called: rank 2 is none of the job.
Table calls() {
  Table table = make_table({"calls",
                            "",
                            {{"trace_rank", ColumnKind::integer, "", ""},
                             {"function", ColumnKind::text, "", ""},
                             {"calls", ColumnKind::integer, "", ""},
                             {"longest_ns", ColumnKind::integer, "ns", ""},
                             {"counts", ColumnKind::integer, "", ""}}});
  RowWriter row(table);
  row << std::int64_t{0} << "b" << std::int64_t{1} << std::int64_t{5} << std::int64_t{1};
  row << std::int64_t{0} << "a" << std::int64_t{2} << std::int64_t{9} << std::int64_t{1};
  row << std::int64_t{1} << "b" << std::int64_t{4} << std::int64_t{3} << std::int64_t{1};
  row << std::int64_t{1} << "c" << std::int64_t{7} << std::int64_t{8} << std::int64_t{0};
  row << std::int64_t{2} << "a" << std::int64_t{100} << std::int64_t{100} << std::int64_t{1};
  return table;
}

Folding by_function() {
  return {.columns = {{"name", "function", FoldedColumn::By::key},
                      {"count", "calls"},
                      {"max_ns", "longest_ns", FoldedColumn::By::largest}},
          .order = "count"};
}

std::vector<std::string> names(const Table& table) {
  const auto& texts = column<std::string>(table, "name");
  return {texts.begin(), texts.end()};
}

TEST(FoldRows, SumsAndLargestByKeyMostFirst) {
  const Table folded = fold_rows(calls(), by_function(), {0, 1});
  EXPECT_THAT(names(folded), ElementsAre("c", "b", "a"));
  EXPECT_THAT(column<std::int64_t>(folded, "count"), ElementsAre(7, 5, 2));
  EXPECT_THAT(column<std::int64_t>(folded, "max_ns"), ElementsAre(8, 5, 9));
  EXPECT_EQ(folded.schema.columns[2].unit, "ns");
}

TEST(FoldRows, AllRanksWhereNoneIsNamed) {
  EXPECT_THAT(names(fold_rows(calls(), by_function())), ElementsAre("a", "c", "b"));
}

TEST(FoldRows, OnlyRowsThatCountAndNoMoreThanAreKept) {
  Folding folding = by_function();
  folding.only_where = "counts";
  EXPECT_THAT(names(fold_rows(calls(), folding, {0, 1})), ElementsAre("b", "a"));
  folding.most = 1;
  EXPECT_THAT(names(fold_rows(calls(), folding, {0, 1})), ElementsAre("b"));
}

TEST(FoldRows, EqualSumsComeByKey) {
  Folding folding = by_function();
  folding.columns[1] = {"count", "counts"};
  EXPECT_THAT(names(fold_rows(calls(), folding, {0})), ElementsAre("a", "b"));
}

TEST(FoldRows, WithoutAnOrderByKey) {
  Folding folding = by_function();
  folding.order = {};
  EXPECT_THAT(names(fold_rows(calls(), folding, {0, 1})), ElementsAre("a", "b", "c"));
}

TEST(FoldRows, AColumnThatIsNotThereIsAnError) {
  Folding folding = by_function();
  folding.columns[1].from = "misses";
  EXPECT_THROW(fold_rows(calls(), folding), std::out_of_range);
}

}  // namespace
}  // namespace nsys_explain
