#include "analysis/tables/tables.hpp"

#include <gtest/gtest.h>

#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using testing::integers;
using testing::Integers;
using testing::OneRank;
using testing::reals;
using testing::table_of;
using testing::texts;
using testing::Texts;

TEST(Kernels, ByNameBaseNameAndLaunch) {
  OneRank rank;
  rank.kernel("gemm<float>", 0, 10);
  rank.kernel("gemm<half>", 20, 50);
  rank.kernel("gemm<half>", 60, 70).grid_x = 4;
  rank.kernel("ncclDevKernel_AllReduce", 100, 150);
  const std::vector<Table> tables = kernel_tables(rank.events());
  EXPECT_EQ(find_table(tables, "kernels_by_mangled_name"), nullptr) << "the export has no mangled names";

  const Table& full = table_of(tables, "kernels");
  EXPECT_EQ(texts(full, "name"), (Texts{"ncclDevKernel_AllReduce", "gemm<half>", "gemm<float>"}));
  EXPECT_EQ(integers(full, "total_ns"), (Integers{50, 40, 10}));
  EXPECT_EQ(integers(full, "count"), (Integers{1, 2, 1}));
  EXPECT_EQ(integers(full, "communication"), (Integers{1, 0, 0}));
  EXPECT_EQ(reals(full, "share_percent"), (testing::Reals{50, 40, 10}));
  EXPECT_DOUBLE_EQ(reals(full, "median_ns")[1], 20);

  const Table& base = table_of(tables, "kernels_by_base_name");
  EXPECT_EQ(texts(base, "name"), (Texts{"gemm", "ncclDevKernel_AllReduce"})) << "equal totals go by name";
  EXPECT_EQ(integers(base, "count"), (Integers{3, 1}));

  const Table& launch = table_of(tables, "kernels_by_launch");
  EXPECT_EQ(texts(launch, "name"), (Texts{"ncclDevKernel_AllReduce", "gemm<half>", "gemm<float>", "gemm<half>"}));
  EXPECT_EQ(integers(launch, "grid_x"), (Integers{1, 1, 1, 4}));
}

TEST(Kernels, TailsTellOutliersFromSystematicOnes) {
  OneRank rank;
  for (int i = 0; i < 1000; ++i) {
    const Nanoseconds start = i * 1000;
    rank.kernel("steady", start, start + 100);
    rank.kernel("once", start + 100, start + 100 + (i == 500 ? 250 : 100));
    rank.kernel("often", start + 400, start + 400 + (i % 20 == 0 ? 180 : 100));
  }
  const std::vector<Table> tables = kernel_tables(rank.events());
  const Table& table = table_of(tables, "kernels");
  ASSERT_EQ(texts(table, "name"), (Texts{"often", "once", "steady"}));
  EXPECT_EQ(texts(table, "tail"), (Texts{"systematic", "outliers", "none"}));
  // The 99th percentile of "often" is 180, so its score is 80 x 1000.
  EXPECT_EQ(reals(table, "tail_score_ns"), (testing::Reals{80'000, 0, 0}));
}

TEST(Kernels, HistogramCountsEveryExecution) {
  OneRank rank;
  rank.kernel("a", 0, 1000);
  rank.kernel("a", 2000, 3010);
  rank.kernel("a", 4000, 9000);
  const Table table = kernel_histogram_table(rank.events());
  EXPECT_EQ(integers(table, "lower_ns"), (Integers{896, 4096}));
  EXPECT_EQ(integers(table, "upper_ns"), (Integers{1024, 5120}));
  EXPECT_EQ(integers(table, "count"), (Integers{2, 1}));
}

TEST(Kernels, PacingIsFromStartToStart) {
  OneRank rank;
  for (const Nanoseconds start : {0, 100, 250, 350}) rank.kernel("a<1>", start, start + 10);
  rank.kernel("once", 500, 510);
  const std::vector<Table> tables = kernel_pacing_tables(rank.events());
  const Table& pacing = table_of(tables, "kernel_pacing");
  ASSERT_EQ(texts(pacing, "name"), (Texts{"a"}));
  EXPECT_EQ(integers(pacing, "count"), (Integers{3}));
  EXPECT_EQ(integers(pacing, "min_ns"), (Integers{100}));
  EXPECT_EQ(integers(pacing, "max_ns"), (Integers{150}));
  EXPECT_EQ(integers(pacing, "last_ns"), (Integers{350}));
  EXPECT_EQ(pacing.schema.columns[1].kind, ColumnKind::time);
  const Table& progress = table_of(tables, "kernel_progress");
  EXPECT_EQ(integers(progress, "execution"), (Integers{0, 1, 2, 3, 0}));
  EXPECT_EQ(integers(progress, "start_ns"), (Integers{0, 100, 250, 350, 500}));
}

TEST(Kernels, ProgressIsBoundedAndHoldsBothEnds) {
  OneRank rank;
  for (int i = 0; i < 1000; ++i) rank.kernel("a", i * 10, i * 10 + 5);
  const std::vector<Table> tables = kernel_pacing_tables(rank.events());
  const Integers& executions = integers(table_of(tables, "kernel_progress"), "execution");
  ASSERT_EQ(executions.size(), 64);
  EXPECT_EQ(executions.front(), 0);
  EXPECT_EQ(executions.back(), 999);
}

TEST(Kernels, NoKernelsGiveNoRows) {
  OneRank rank;
  for (const Table& table : kernel_tables(rank.events())) EXPECT_EQ(table.row_count(), 0);
  EXPECT_EQ(kernel_histogram_table(rank.events()).row_count(), 0);
  for (const Table& table : kernel_pacing_tables(rank.events())) EXPECT_EQ(table.row_count(), 0);
}

}  // namespace
}  // namespace nsys_explain::analysis
