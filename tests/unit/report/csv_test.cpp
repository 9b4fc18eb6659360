#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "nsys_explain/model/time.hpp"
#include "report/report.hpp"

namespace nsys_explain::report {
namespace {

Table one_text_column(TextColumn values) {
  Table table = make_table({"t", "", {{"n", ColumnKind::integer, "", ""}, {"text", ColumnKind::text, "", ""}}});
  table.columns[0] = std::vector<std::int64_t>(values.size(), -1);
  table.columns[1] = std::move(values);
  return table;
}

std::string csv_of(const std::string& text) {
  return csv_rows(one_text_column({text}));
}

TEST(Csv, WritesNumbersExactly) {
  Table table = make_table({"t", "", {{"i", ColumnKind::integer, "", ""}, {"r", ColumnKind::real, "", ""}}});
  table.columns[0] = std::vector<std::int64_t>{-5, std::numeric_limits<std::int64_t>::max(), no_time};
  table.columns[1] = std::vector<double>{0.1, -1e300, std::nan("")};
  EXPECT_EQ(csv_header(table.schema), "i,r\r\n");
  EXPECT_EQ(csv_rows(table), "-5,0.1\r\n9223372036854775807,-1e+300\r\n,\r\n");
}

TEST(Csv, QuotesAsRfc4180Says) {
  EXPECT_EQ(csv_of("plain text"), "-1,plain text\r\n");
  EXPECT_EQ(csv_of("a,b"), "-1,\"a,b\"\r\n");
  EXPECT_EQ(csv_of("say \"x\""), "-1,\"say \"\"x\"\"\"\r\n");
  EXPECT_EQ(csv_of("two\nlines"), "-1,\"two\nlines\"\r\n");
  EXPECT_EQ(csv_of(""), "-1,\r\n");
  EXPECT_EQ(csv_of("bad\xff"), "-1,bad\uFFFD\r\n");
}

TEST(Csv, DefusesFormulasInTextOnly) {
  EXPECT_EQ(csv_of("=1+1"), "-1,'=1+1\r\n");
  EXPECT_EQ(csv_of("+1"), "-1,'+1\r\n");
  EXPECT_EQ(csv_of("-1"), "-1,'-1\r\n");
  EXPECT_EQ(csv_of("@SUM(A1)"), "-1,'@SUM(A1)\r\n");
  EXPECT_EQ(csv_of("\t=1"), "-1,'\t=1\r\n");
  EXPECT_EQ(csv_of("\r=1"), "-1,'\\x0D=1\r\n");
  EXPECT_EQ(csv_of("=HYPERLINK(\"x\",1)"), "-1,\"'=HYPERLINK(\"\"x\"\",1)\"\r\n");
  EXPECT_EQ(csv_of("a=1"), "-1,a=1\r\n");
}

TEST(Csv, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(csv_of("\x1b]0;title\x07"), "-1,\\x1B]0;title\\x07\r\n");
  EXPECT_EQ(csv_of("\u202Egnp.exe"), "-1,\\u202Egnp.exe\r\n");
  EXPECT_EQ(csv_of("größer\tals"), "-1,größer\tals\r\n");
}

TEST(Csv, ARowIsNeverABlankLine) {
  Table table = make_table({"t", "", {{"text", ColumnKind::text, "", ""}}});
  table.columns[0] = TextColumn{"", "x"};
  EXPECT_EQ(csv_rows(table), "\"\"\r\nx\r\n");
}

TEST(Csv, RefusesColumnsThatDoNotBelongTogether) {
  Table table = one_text_column({"a", "b"});
  std::get<std::vector<std::int64_t>>(table.columns[0]).pop_back();
  EXPECT_THROW(csv_rows(table), std::invalid_argument);
  EXPECT_EQ(csv_rows(make_table(table.schema)), "");
}

}  // namespace
}  // namespace nsys_explain::report
