#include "report/report.hpp"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "report/text.hpp"

namespace nsys_explain::report {
namespace {

Table kernels(const std::vector<std::string>& names) {
  Table table = make_table({"kernels", "", {{"name", ColumnKind::text, "", ""}}});
  RowWriter rows(table);
  for (const std::string& name : names) rows << name;
  return table;
}

TEST(TableText, NamesThatAreCutAreToldApart) {
  const std::string begin = "void at::native::vectorized_elementwise_kernel<", end = ", char*>(int, T2, T3)";
  const std::string text = table_text(kernels({begin + "4, AddFunctor" + end, begin + "4, FillFunctor" + end,
                                               "void at::native::reduce_kernel<512, 1, ReduceOp>(ReduceOp)"}),
                                      {false, 40});
  EXPECT_EQ(text,
            "name                                    \n"
            "void at::nati...4, AddFunctor, char*>...\n"
            "void at::nati...4, FillFunctor, char*...\n"
            "void at::native::re...educeOp>(ReduceOp)\n");
}

TEST(TableJson, NumbersHaveSixDigitsAndTimesAllOfThem) {
  Table table =
      make_table({"t", "", {{"share", ColumnKind::real, "", ""}, {"wait_ns", ColumnKind::integer, "ns", ""}}});
  RowWriter(table) << 0.88591234567 << std::int64_t{1'234'567'891};
  EXPECT_EQ(table_json(in_time_unit(table, TimeUnit::msec)),
            "[\n  {\n    \"share\": 0.885912,\n    \"wait_ms\": 1234.567891\n  }\n]\n");
}

}  // namespace
}  // namespace nsys_explain::report
