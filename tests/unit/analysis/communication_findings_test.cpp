#include <gmock/gmock.h>

#include <tuple>
#include <vector>

#include "analysis/findings/findings.hpp"
#include "analysis/problems/find_problems.hpp"
#include "analysis/questions/question.hpp"

namespace nsys_explain::analysis {
namespace questions {
Question kernels();
}
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Nanoseconds ms = 1'000'000;

struct KernelRow {
  std::int64_t trace_rank;
  const char* name;
  bool communication;
  std::int64_t count;
  Nanoseconds total_ns;
};

/// Trace ranks of 1 s each that are never idle.
JobReport job(std::int32_t trace_ranks, const std::vector<KernelRow>& kernels) {
  JobReport report;
  for (std::int32_t r = 0; r < trace_ranks; ++r) {
    report.trace_ranks.emplace_back().trace_rank = r;
    RankSummary& rank = report.ranks.emplace_back();
    rank.trace_rank = r;
    rank.budget.window_ns = rank.budget.compute_ns = 1000 * ms;
  }
  Table table = make_table({"kernels",
                            "",
                            {{"trace_rank", ColumnKind::integer, "", ""},
                             {"name", ColumnKind::text, "", ""},
                             {"communication", ColumnKind::integer, "", ""},
                             {"count", ColumnKind::integer, "", ""},
                             {"total_ns", ColumnKind::integer, "ns", ""}}});
  RowWriter rows(table);
  for (const KernelRow& k : kernels) rows << k.trace_rank << k.name << k.communication << k.count << k.total_ns;
  report.tables = {table};
  return report;
}

std::vector<Finding> find_unknown(const JobReport& report) {
  std::vector<Finding> findings;
  questions::kernels().find(report, findings);
  std::erase_if(findings, [](const Finding& finding) { return finding.id != "unknown-communication"; });
  return findings;
}

/// Whether its name tells: two trace ranks run it all the time.
bool looks_like_communication(const char* kernel) {
  return !find_unknown(job(2, {{0, kernel, false, 5, 900 * ms}, {1, kernel, false, 5, 900 * ms}})).empty();
}

TEST(UnknownCommunication, NamesTheKernelsAndWhatToSay) {
  // 60 + 40 + 20 = 120 of 2,000 ms are 6%. What is known to communicate is none of them.
  const JobReport report = job(2, {{0, "gemm(float*)", false, 9, 800 * ms},
                                   {1, "gemm(float*)", false, 9, 780 * ms},
                                   {0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", true, 3, 140 * ms},
                                   {1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", true, 3, 160 * ms},
                                   {0, "void fabric::ringAllReduce<float, 2>(float*)", false, 5, 60 * ms},
                                   {1, "void fabric::ringAllReduce<float, 2>(float*)", false, 5, 20 * ms},
                                   {1, "void fabric::ringAllReduce<half, 2>(half*)", false, 1, 10 * ms},
                                   {0, "void (anonymous namespace)::token_dispatch<8>(int4*)", false, 2, 10 * ms},
                                   {1, "void (anonymous namespace)::token_dispatch<8>(int4*)", false, 2, 20 * ms}});
  const std::vector<Finding> findings = find_unknown(report);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, FindingSeverity::medium);
  EXPECT_THAT(findings[0].title, HasSubstr("6.0% of the time of kernels"));
  EXPECT_THAT(findings[0].evidence,
              ElementsAre("fabric::ringAllReduce: 90.000 ms of GPU time in 11 executions on 2 ranks",
                          "(anonymous namespace)::token_dispatch: 30.000 ms of GPU time in 4 executions on 2 ranks",
                          "rows: kernels where communication = 0"));
  EXPECT_THAT(findings[0].recommendation, HasSubstr("--communication-kernels 'ringAllReduce|token_dispatch'"));
}

TEST(UnknownCommunication, NeitherIsThereNoneNorIsNobodyLate) {
  JobReport report = job(2, {{0, "void fabric::ringAllReduce<2>(float*)", false, 5, 300 * ms},
                             {1, "void fabric::ringAllReduce<2>(float*)", false, 5, 20 * ms}});
  report.findings = find_problems(report);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].id, "unknown-communication");  // and not no-communication
  const JobVerdict verdict = judge(report);
  EXPECT_TRUE(verdict.text.starts_with("100.0% of the time of kernels is in such as look like communication"))
      << verdict.text;
  EXPECT_EQ(verdict.next, report.findings[0].recommendation);
  // Where other collectives are known, and nobody is late for those, that is not the whole of it.
  report.instances = report.complete = 50;
  report.findings = find_problems(report);
  EXPECT_TRUE(judge(report).text.starts_with("100.0%")) << judge(report).text;
}

TEST(UnknownCommunication, IsNoneOfOneTraceRankOrOfLittleTime) {
  EXPECT_THAT(find_unknown(job(1, {{0, "myAllGather(int*)", false, 5, 900 * ms}})), IsEmpty());
  // Only one of the two runs it: nobody to talk to.
  EXPECT_THAT(
      find_unknown(job(2, {{0, "myAllGather(int*)", false, 5, 900 * ms}, {1, "gemm(int*)", false, 5, 900 * ms}})),
      IsEmpty());
  const auto with = [](Nanoseconds each_ns) {
    return job(2, {{0, "myAllGather(int*)", false, 5, each_ns},
                   {1, "myAllGather(int*)", false, 5, each_ns},
                   {0, "gemm(int*)", false, 5, 1000 * ms - 2 * each_ns}});
  };
  EXPECT_THAT(find_unknown(with(24 * ms)), IsEmpty());  // 4.8%
  EXPECT_THAT(find_unknown(with(26 * ms)), SizeIs(1));  // 5.2%
}

TEST(UnknownCommunication, IsToldByTheNameAlone) {
  for (const char* name :
       {"my_all_reduce_v2", "void a::AllReduceKernel<2>()", "reduce_scatter_ring", "alltoall", "all2allPush",
        "void moe::dispatch<8>(int)", "void moe::combineTokens<8>(int)", "DispatchKernel", "gemm_allreduce_fused"}) {
    EXPECT_TRUE(looks_like_communication(name)) << name;
  }
  for (const char* name :
       {"void flash::flash_fwd_splitkv_combine_kernel<Traits, 4>(flash::Flash_fwd_params)",
        "void flash_mla::combine_kernel<512>(Params)", "_attn_combine", "void mla_combine(float*)",
        "void cub::DeviceReduceKernel<cub::DispatchReduce<float>>(float*)", "void scale<comm::AllReduce>(int)",
        "void block_all_reduce_sum_f32_kernel<256>(float*)", "void dispatch::gemm<128>(float*)",
        "moeA2APrepareDispatchKernel", "void at::native::reduce_kernel<512, 1>(ReduceOp)", "broadcast_add", ""}) {
    EXPECT_FALSE(looks_like_communication(name)) << name;
  }
}

}  // namespace
}  // namespace nsys_explain::analysis
