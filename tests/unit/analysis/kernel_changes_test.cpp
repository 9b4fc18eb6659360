#include "analysis/compare/comparison.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <tuple>
#include <vector>

#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {
namespace {

/// Compute kernels: name, executions, total in us. One all-reduce besides.
RunTables run_with(const std::vector<std::tuple<std::string_view, std::int64_t, std::int64_t>>& kernels) {
  Table table = make_table({"kernels",
                            "",
                            {{"name", ColumnKind::text, "", ""},
                             {"communication", ColumnKind::integer, "", ""},
                             {"count", ColumnKind::integer, "", ""},
                             {"total_ns", ColumnKind::integer, "ns", ""}}});
  RowWriter row(table);
  for (const auto& [name, count, total_us] : kernels) row << name << std::int64_t{0} << count << 1000 * total_us;
  row << std::string_view("nccl") << std::int64_t{1} << std::int64_t{7} << std::int64_t{7'000'000};
  return {"run", {table}, "nvtx"};
}

TEST(FusedKernels, FewerAndLongerOnesInTheirPlace) {
  // Twice as many steps: 2 x (100 + 100 + 100) executions of 10 us would be 6,000 us; 200 of 24 us are 80% of that.
  const RunTables base = run_with({{"gemm", 50, 5000}, {"bias", 100, 1000}, {"gelu", 100, 1000}, {"drop", 100, 1000}});
  const auto note = fused_kernels_note(base, run_with({{"gemm", 100, 10000}, {"fused", 200, 4800}}));
  ASSERT_TRUE(note.has_value());
  EXPECT_EQ(
      *note,
      "compute kernels of 3 names (300 executions, 10.0 us each on average) are gone, and of 1 other came 200 "
      "(24.0 us each): fewer and longer ones, as where kernels are fused; for as much work they take 80% of the time");
}

TEST(FusedKernels, OtherChangesAreNone) {
  const RunTables base = run_with({{"gemm", 50, 5000}, {"bias", 100, 1000}});
  EXPECT_FALSE(fused_kernels_note(base, base));
  EXPECT_FALSE(fused_kernels_note(base, run_with({{"gemm", 50, 5000}})));
  EXPECT_FALSE(fused_kernels_note(base, run_with({{"gemm", 50, 5000}, {"new", 100, 900}}))) << "as many, and shorter";
  EXPECT_FALSE(fused_kernels_note(base, run_with({{"gemm", 50, 5000}, {"new", 10, 9000}}))) << "does more";
  EXPECT_FALSE(fused_kernels_note(base, run_with({{"new", 10, 900}}))) << "nothing tells how much work was done";
}

}  // namespace
}  // namespace nsys_explain::analysis
