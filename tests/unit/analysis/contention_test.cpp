#include "analysis/trace/contention.hpp"

#include <gtest/gtest.h>

#include "rank_fixture.hpp"

namespace nsys_explain::analysis {
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
  const Contention contention(rank.events());
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

}  // namespace
}  // namespace nsys_explain::analysis
