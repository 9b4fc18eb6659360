#include "nsys_explain/model/shown_table.hpp"

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

TEST(FoldRows, SharesOfAllRowsAndValuesOfTheRowWithMost) {
  using By = FoldedColumn::By;
  const Folding folding{.columns = {{"name", "function", By::key},
                                    {"rows", "function", By::rows},
                                    {"share", "calls", By::share},
                                    {"at", "trace_rank", By::at_largest, "calls"},
                                    {"least_at", "trace_rank", By::at_smallest, "calls"},
                                    {"shortest_ns", "longest_ns", By::smallest},
                                    {"median_ns", "longest_ns", By::median},
                                    {"mean_ns", "longest_ns", By::mean, "calls"}},
                        .order = "share",
                        .only_where = "counts"};
  const Table folded = fold_rows(calls(), folding, {0, 1});
  EXPECT_THAT(names(folded), ElementsAre("b", "a"));
  EXPECT_THAT(column<std::int64_t>(folded, "rows"), ElementsAre(2, 1));
  EXPECT_THAT(column<double>(folded, "share"), ElementsAre(5.0 / 14, 2.0 / 14))
      << "c takes 7 of 14, and does not count";
  EXPECT_THAT(column<std::int64_t>(folded, "at"), ElementsAre(1, 0));
  EXPECT_THAT(column<std::int64_t>(folded, "least_at"), ElementsAre(0, 0));
  EXPECT_THAT(column<std::int64_t>(folded, "shortest_ns"), ElementsAre(3, 9));
  EXPECT_THAT(column<std::int64_t>(folded, "median_ns"), ElementsAre(3, 9)) << "the lower one";
  EXPECT_THAT(column<double>(folded, "mean_ns"), ElementsAre((1 * 5 + 4 * 3) / 5.0, 9.0));
}

TEST(FoldRows, OfOneTextOrOfAllOthers) {
  Folding folding = by_function();
  folding.only_where = "function";
  folding.is = "b";
  EXPECT_THAT(names(fold_rows(calls(), folding, {0, 1})), ElementsAre("b"));
  folding.is = {};
  folding.is_not = "b";
  EXPECT_THAT(names(fold_rows(calls(), folding, {0, 1})), ElementsAre("c", "a"));
}

TEST(FoldRows, NumbersAsKeysComeInTheirOrder) {
  Folding folding{.columns = {{"calls", "calls", FoldedColumn::By::key}}};
  EXPECT_THAT(column<std::int64_t>(fold_rows(calls(), folding), "calls"), ElementsAre(1, 2, 4, 7, 100));
}

TEST(FoldRows, JoinedRowsWithoutACounterpartGetNothing) {
  Folding ranks{.columns = {{"name", "function", FoldedColumn::By::key}, {"of_rank_1", "calls"}}};
  const Table joined = joined_by_keys(fold_rows(calls(), by_function(), {0}), fold_rows(calls(), ranks, {1}));
  EXPECT_THAT(names(joined), ElementsAre("a", "b"));
  EXPECT_THAT(column<std::int64_t>(joined, "of_rank_1"), ElementsAre(0, 4));
}

TEST(FoldRows, InTheOrderOfFirstRows) {
  Folding folding = by_function();
  folding.order = {};
  folding.by_first_rows = true;
  EXPECT_THAT(names(fold_rows(calls(), folding, {0, 1})), ElementsAre("b", "a", "c"));
}

TEST(FoldRows, AColumnThatIsNotThereIsAnError) {
  Folding folding = by_function();
  folding.columns[1].from = "misses";
  EXPECT_THROW(fold_rows(calls(), folding), std::out_of_range);
}

}  // namespace
}  // namespace nsys_explain
