#include "analysis/trace/rank_events.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/questions/question.hpp"
#include "model/schema/gpu.hpp"
#include "rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace questions {
Question contended_kernels();
}
namespace {

using testing::OneRank;

constexpr Nanoseconds us = 1000;

/// Eight kernels of 100 us alone, then as many beside a collective, of `beside_ns` each.
void add_kernels(OneRank& rank, Nanoseconds beside_ns) {
  for (int i = 0; i < 8; ++i) rank.kernel("gemm", i * 200 * us, (i * 200 + 100) * us);
  for (int i = 0; i < 8; ++i) rank.kernel("gemm", (2000 + i * 200) * us, (2000 + i * 200) * us + beside_ns);
  rank.kernel("ncclAllReduce", 1900 * us, 4000 * us, 0, 8);
}

TEST(Contention, IsWhatKernelsAlikeTakeLongerBesideCollectives) {
  OneRank rank;
  add_kernels(rank, 125 * us);
  Contention contention(rank.events());
  EXPECT_DOUBLE_EQ(contention.lost_share(), 0.2);
  EXPECT_EQ(contention.lost_within(1850 * us, 1950 * us), 10 * us);  // 50 us are beside
  EXPECT_EQ(contention.lost_within(0, 1000 * us), 0);
}

TEST(Contention, IsNoneWhereKernelsBesideTakeNoLonger) {
  OneRank rank;
  add_kernels(rank, 90 * us);
  EXPECT_EQ(Contention(rank.events()).lost_share(), 0);
}

TEST(Contention, OtherKernelsTellNothing) {
  OneRank rank;
  for (int i = 0; i < 8; ++i) rank.kernel("gemm", i * 200 * us, (i * 200 + 100) * us);
  for (int i = 0; i < 8; ++i) rank.kernel("gemm", (2000 + i * 200) * us, (2125 + i * 200) * us).grid_x = 2;
  rank.kernel("ncclAllReduce", 1900 * us, 4000 * us, 0, 8);
  EXPECT_EQ(Contention(rank.events()).lost_share(), 0);
}

/// A job of one rank with a window of so many milliseconds.
JobReport report_with(Table table, std::int64_t window_ms) {
  JobReport report;
  report.ranks.emplace_back().budget.window_ns = window_ms * 1000 * us;
  report.tables.push_back(std::move(table));
  return report;
}

TEST(Contention, IsToldWithWhatItCosts) {
  OneRank rank;
  add_kernels(rank, 125 * us);
  const Table table = questions::contended_kernels().rows(rank.events());
  ASSERT_EQ(table.row_count(), 1U);
  EXPECT_EQ(column(table, schema::contended_kernels.alone)[0], 8);
  EXPECT_EQ(column(table, schema::contended_kernels.beside_ns)[0], 125 * us);
  EXPECT_EQ(column(table, schema::contended_kernels.lost_ns)[0], 200 * us) << "8 times 25 us";

  std::vector<Finding> findings;
  questions::contended_kernels().find(report_with(table, 40), findings);
  EXPECT_TRUE(findings.empty()) << "0.5%";
  questions::contended_kernels().find(report_with(table, 4), findings);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].title, ::testing::HasSubstr("1.25 times as long as alone: 5.0% of GPU time"));
  EXPECT_EQ(findings[0].cost_ns, 200 * us);
}

}  // namespace

}  // namespace nsys_explain::analysis
