#include "analysis/tables/tables.hpp"

#include <gmock/gmock.h>

#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using testing::integers;
using testing::Integers;
using testing::OneRank;
using testing::reals;
using testing::Reals;

TEST(GpuTrace, HasRegistersSharedMemoryAndThroughput) {
  OneRank rank;
  KernelKind& kernel = rank.kernel("k", 0, 10);
  kernel.registers_per_thread = 96;
  kernel.static_shared_bytes = 1024;
  kernel.dynamic_shared_bytes = 49152;
  rank.copy(1, 20, 40, 500);  // 500 bytes in 20 ns: 25 GB/s
  const Table table = gpu_trace_table(rank.events());
  EXPECT_EQ(integers(table, "registers"), (Integers{96, -1}));
  EXPECT_EQ(integers(table, "static_shared_bytes"), (Integers{1024, -1}));
  EXPECT_EQ(integers(table, "dynamic_shared_bytes"), (Integers{49152, -1}));
  EXPECT_EQ(reals(table, "throughput_gbs"), (Reals{-1, 25}));
}

}  // namespace
}  // namespace nsys_explain::analysis
