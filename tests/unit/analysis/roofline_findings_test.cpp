#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/questions/question.hpp"
#include "analysis/tables/side_files.hpp"
#include "made_trace.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {
namespace questions {
Question roofline();
}
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MadeTrace;

constexpr const char* stalls_csv =
    "ID,Kernel Name,smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio,"
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio,"
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio,"
    "smsp__average_warp_latency_issue_stalled_wait.ratio\n0,add,3,1,1,900\n1,add,5,1,1,900\n";

TEST(KernelStalls, ShareTheTimeOfAllLaunches) {
  MadeTrace made;
  made.launch(0, 1, 0, 2000, "add");
  RooflineEvidence evidence;
  evidence.ncu = parse_ncu_csv(stalls_csv);
  const std::vector<Table> tables = roofline_tables(made.events(), evidence);
  const Table& stalls = *find_table(tables, schema::kernel_stalls);
  EXPECT_THAT(column(stalls, schema::kernel_stalls.reason), ElementsAre("long_scoreboard", "barrier"));
  EXPECT_THAT(column(stalls, schema::kernel_stalls.share_percent), ElementsAre(80, 20));  // 8 and 2 cycles
  EXPECT_THAT(column(stalls, schema::kernel_stalls.total_ns), ElementsAre(2000, 2000));
  EXPECT_EQ(column(stalls, schema::kernel_stalls.meaning)[0], "data from global, local, texture or surface memory");
}

TEST(KernelStalls, AreReadInEveryFamilyOfMetrics) {
  for (const char* name :
       {"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
        "smsp__warp_issue_stalled_barrier_per_warp_active.pct",
        "smsp__average_warp_latency_issue_stalled_barrier.ratio",
        "smsp__average_warp_latency_issue_stalled_barrier.pct", "smsp__pcsamp_warps_issue_stalled_barrier"}) {
    const auto kernels = parse_ncu_csv(std::string("ID,Kernel Name,") + name + "\n0,k,2.5\n");
    EXPECT_EQ(kernels.at(0).stalls, (std::map<std::string, double>{{"barrier", 2.5}})) << name;
  }
}

TEST(Ncu, SectorsByARequestFollowFromTheirSums) {
  const NcuKernel kernel =
      parse_ncu_csv(
          "ID,Kernel Name,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum\n"
          "0,k,3200,100\n")
          .at(0);
  EXPECT_EQ(kernel.sectors_per_load, 32);
  EXPECT_EQ(kernel.sectors_per_store, -1);
}

/// Of a job of one trace rank with a window of 10 us, in which the kernel runs for 3 us.
std::vector<Finding> found(const std::string& kernel, double sm, double dram, double tensor) {
  MadeTrace made;
  made.launch(0, 1, 0, 3000, kernel);
  NcuKernel profiled;
  profiled.name = kernel;
  profiled.sm_percent = sm;
  profiled.dram_percent = dram;
  profiled.tensor_percent = tensor;
  RooflineEvidence evidence;
  evidence.ncu = {profiled};
  JobReport report;
  report.ranks.emplace_back().budget.window_ns = 10'000;
  report.tables = roofline_tables(made.events(), evidence);
  std::vector<Finding> findings;
  questions::roofline().find(report, findings);
  return findings;
}

TEST(Roofline, FindsWhatTheMemoryBounds) {
  const auto findings = found("layer_norm", 40, 85, 0);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "memory-bound");
  EXPECT_THAT(findings[0].title, HasSubstr("30.0% of GPU time"));
  EXPECT_EQ(findings[0].cost_ns, 3000);
  EXPECT_EQ(findings[0].evidence[0], "layer_norm: 3.000 us of GPU time, memory 85% busy, multiprocessors 40%");
}

TEST(Roofline, FindsMultiplicationsWithoutTensorCores) {
  const auto findings = found("sgemm_128x64_nn", 90, 20, 0);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "tensor-cores-idle");
  EXPECT_THAT(findings[0].title, HasSubstr("30.0% of GPU time"));
}

TEST(Roofline, SaysNothingThatWasNotMeasured) {
  EXPECT_THAT(found("sgemm_128x64_nn", 90, 20, -1), IsEmpty());  // the tensor pipe was not looked at
  EXPECT_THAT(found("sgemm_128x64_nn", 90, 20, 55), IsEmpty());
  EXPECT_THAT(found("sgemm_128x64_nn", 30, 20, 0), IsEmpty());  // waits for something
  EXPECT_THAT(found("softmax", 90, 20, 0), IsEmpty());          // has nothing to multiply
  EXPECT_THAT(found("layer_norm", -1, 85, 0), IsEmpty());
}

}  // namespace
}  // namespace nsys_explain::analysis
