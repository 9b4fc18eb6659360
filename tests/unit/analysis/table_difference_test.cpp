#include "analysis/compare/comparison.hpp"

#include <cmath>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace nsys_explain::analysis {
namespace {

using Rows = std::vector<std::tuple<std::int64_t, std::string, std::int64_t, double>>;

Table kernels_of(const Rows& rows) {
  Table table = make_table({"kernels",
                            "",
                            {{"trace_rank", ColumnKind::integer, "", ""},
                             {"name", ColumnKind::text, "", ""},
                             {"total_ns", ColumnKind::integer, "ns", ""},
                             {"share_percent", ColumnKind::real, "%", ""}}});
  RowWriter writer(table);
  for (const auto& [rank, name, total_ns, share] : rows) writer << rank << std::string_view(name) << total_ns << share;
  return table;
}

std::vector<std::string> texts_of(const Table& table, const char* name) {
  std::vector<std::string> texts;
  for (std::size_t row = 0; row < table.row_count(); ++row) texts.emplace_back(column<std::string>(table, name)[row]);
  return texts;
}

TEST(TableDifference, RowsAreBroughtTogetherByRankAndName) {
  const Table before = kernels_of({{0, "a", 100, 50}, {0, "b", 100, 50}, {1, "a", 70, 100}});
  const Table after = kernels_of({{0, "a", 130, 40}, {0, "c", 200, 60}, {1, "a", 60, 100}});
  const Table difference = table_difference(before, after, {});
  EXPECT_EQ(texts_of(difference, "name"), (std::vector<std::string>{"c", "b", "a", "a"}));  // largest change first
  EXPECT_EQ(texts_of(difference, "in"), (std::vector<std::string>{"after", "before", "both", "both"}));
  EXPECT_EQ(column<std::int64_t>(difference, "trace_rank"), (std::vector<std::int64_t>{0, 0, 0, 1}));
  EXPECT_EQ(column<std::int64_t>(difference, "total_ns_change"), (std::vector<std::int64_t>{200, -100, 30, -10}));
  EXPECT_TRUE(std::isnan(column<double>(difference, "share_percent_before")[0]));
  EXPECT_DOUBLE_EQ(column<double>(difference, "share_percent_change")[2], -10);
}

TEST(TableDifference, RulesMakeNamesAlike) {
  const Table before = kernels_of({{0, "gemm_sm80<float>", 100, 50}, {1, "gemm_sm80<half>", 50, 100}});
  const Table after = kernels_of({{0, "gemm_sm90<float>", 90, 100}});
  DifferenceRequest request;
  request.by = {"name"};
  request.renames = {Rename("_sm[0-9]+", "_sm"), Rename("<(\\w+)>", "")};
  const Table difference = table_difference(before, after, request);
  EXPECT_EQ(texts_of(difference, "name"), (std::vector<std::string>{"gemm_sm"}));
  EXPECT_EQ(column<std::int64_t>(difference, "total_ns_before")[0], 150);
  EXPECT_EQ(column<std::int64_t>(difference, "total_ns_change")[0], -60);
  EXPECT_DOUBLE_EQ(column<double>(difference, "share_percent_before")[0], 75);  // the mean of both
  EXPECT_EQ(Rename("(a)(b)", "\\2\\1").of("xab"), "xba");
}

TEST(TableDifference, WhatCannotBeComparedIsSaid) {
  const Table table = kernels_of({{0, "a", 1, 1}});
  DifferenceRequest request;
  request.by = {"nmae"};
  EXPECT_THROW(table_difference(table, table, request), std::invalid_argument);
  request.by = {"share_percent"};
  EXPECT_THROW(table_difference(table, table, request), std::invalid_argument);
  request = {};
  request.values = {"name"};
  EXPECT_THROW(table_difference(table, table, request), std::invalid_argument);
  EXPECT_THROW(Rename("(", ""), std::invalid_argument);
  EXPECT_THROW(Rename("a", "\\1"), std::invalid_argument);
}

}  // namespace
}  // namespace nsys_explain::analysis
