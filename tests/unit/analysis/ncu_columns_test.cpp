#include <gtest/gtest.h>

#include "analysis/tables/side_files.hpp"

namespace nsys_explain::analysis {
namespace {

/// Of two launches of one kernel: means of what both tell, and what one tells as it is.
TEST(NcuColumns, UseOfUnitsCacheAndWarpsAreMeansOverLaunches) {
  const auto kernels = parse_ncu_csv(
      "ID,Kernel Name,sm__throughput.avg.pct_of_peak_sustained_elapsed,gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed,"
      "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active,lts__t_sector_hit_rate.pct,"
      "sm__warps_active.avg.pct_of_peak_sustained_active\n"
      "0,k,40,60,10,80,25\n"
      "1,k,50,90,30,,35\n");
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_DOUBLE_EQ(kernels[0].sm_percent, 45);
  EXPECT_DOUBLE_EQ(kernels[0].dram_percent, 75);
  EXPECT_DOUBLE_EQ(kernels[0].tensor_percent, 20);
  EXPECT_DOUBLE_EQ(kernels[0].l2_hit_percent, 80);
  EXPECT_DOUBLE_EQ(kernels[0].occupancy_percent, 30);
}

}  // namespace
}  // namespace nsys_explain::analysis
