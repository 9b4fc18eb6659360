#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "analysis/problems/find_problems.hpp"
#include "analysis/questions/question.hpp"
#include "analysis/tables/categories.hpp"
#include "analysis/tables/tables.hpp"
#include "unit/analysis/joined_table.hpp"
#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using ::testing::ElementsAre;
using testing::OneRank;

constexpr Nanoseconds ms = 1'000'000;

/// A job of ranks made by hand, with the tables of all of them joined as the pipeline does. All ranks are devices of
/// one process, or each of its own.
class Job {
 public:
  void add(OneRank& rank, std::uint64_t process) {
    const RankEvents events = rank.events();
    std::vector<Table> tables = kernel_tables(events);
    for (std::vector<Table> more : {launch_tables(events), api_tables(events), expert_rule_tables(events),
                                    idle_tables(events), memory_operation_tables(events), gpu_memory_tables(events)}) {
      std::move(more.begin(), more.end(), std::back_inserter(tables));
    }
    for (Table table :
         {barriers_table(events), os_runtime_table(events), overhead_table(events), thread_states_table(events),
          communication_overlap_tables(events, false)[0], elapsed_table(events)}) {
      tables.push_back(std::move(table));
    }
    for (Table& table : tables) of_name_[table.schema.name].push_back(std::move(table));
    const auto number = static_cast<std::int32_t>(report_.ranks.size());
    RankSummary& summary = report_.ranks.emplace_back();
    summary.trace_rank = number;
    summary.budget.window_ns = 1000 * ms;
    TraceRankIdentity identity;
    identity.trace_rank = number;
    identity.key = {"file.sqlite", process, number};
    identity.process_id = static_cast<std::int32_t>(process);
    report_.trace_ranks.push_back(identity);
  }
  JobReport report() {
    std::vector<Table> tables;
    for (const auto& [name, of_ranks] : of_name_) tables.push_back(testing::join(of_ranks));
    report_.tables = std::move(tables);
    return report_;
  }

 private:
  std::map<std::string, std::vector<Table>> of_name_;
  JobReport report_;
};

ShownTable shown(std::string_view table) {
  for (const Question& question : all_questions())
    if (question.shown.table == table) return question.shown;
  return {};
}

ShownTable listed(std::string_view list) {
  for (const Question& question : all_questions())
    if (question.shown.list == list) return question.shown;
  return {};
}

std::vector<std::string> ids(const std::vector<Finding>& findings) {
  std::vector<std::string> result;
  for (const Finding& finding : findings) result.push_back(finding.id);
  return result;
}

TEST(Activity, AddsTraceRanksUp) {
  OneRank first, second;
  first.kernel("gemm<1>", 0, 100 * ms);
  first.kernel("ncclDevKernel_AllReduce(x)", 50 * ms, 150 * ms, 0, 9);  // 50 of it under the gemm
  first.call("cudaStreamSynchronize", 0, 30 * ms);
  second.kernel("gemm<1>", 0, 300 * ms);
  second.kernel("gemm<1>", 400 * ms, 450 * ms);
  second.copy(1, 460 * ms, 480 * ms, 1'000'000);
  second.call("cudaStreamSynchronize", 0, 50 * ms);
  Job job;
  job.add(first, 11);
  job.add(second, 22);
  const JobReport report = job.report();
  const Table kernels = sums_of(report.tables, report, listed("kernels"));
  ASSERT_EQ(kernels.row_count(), 2);
  EXPECT_EQ(column<std::string>(kernels, "name")[0], "gemm<1>");
  EXPECT_EQ(figure_of(kernels, "gemm<1>", "total_ns"), 450 * ms);
  EXPECT_EQ(figure_of(kernels, "gemm<1>", "count"), 3);
  EXPECT_EQ(figure_of(kernels, "gemm<1>", "trace_ranks"), 2);
  EXPECT_EQ(figure_of(kernels, "gemm<1>", "max_ns"), 300 * ms);
  EXPECT_EQ(figure_of(kernels, "gemm<1>", "largest_trace_rank"), 1);
  EXPECT_DOUBLE_EQ(column<double>(kernels, "share")[0], 450.0 / 550);
  const Table communication = sums_of(report.tables, report, listed("communication_kernels"));
  ASSERT_EQ(communication.row_count(), 1);
  EXPECT_EQ(column<std::int64_t>(communication, "overlapped_ns")[0], 50 * ms);
  EXPECT_DOUBLE_EQ(column<double>(communication, "share")[0], 100.0 / 550);
  const Table barriers = sums_of(report.tables, report, shown("barriers"));
  ASSERT_EQ(barriers.row_count(), 1);
  EXPECT_EQ(figure_of(barriers, "cudaStreamSynchronize", "total_ns"), 80 * ms);
  EXPECT_EQ(figure_of(barriers, "cudaStreamSynchronize", "count"), 2);
  EXPECT_EQ(figure_of(barriers, "cudaStreamSynchronize", "max_ns"), 50 * ms);
  const Table processes = sums_of(report.tables, report, listed("processes"));
  EXPECT_THAT(column<std::int64_t>(processes, "trace_rank"), ElementsAre(0, 1));
  EXPECT_THAT(column<std::int64_t>(processes, "communication_ns"), ElementsAre(100 * ms, 0));
  EXPECT_EQ(column<std::string>(processes, "top_communication")[0], "ncclDevKernel_AllReduce(x)");
  EXPECT_THAT(column<std::int64_t>(processes, "kernel_ns"), ElementsAre(200 * ms, 350 * ms));
  EXPECT_THAT(column<std::int64_t>(processes, "barrier_ns"), ElementsAre(30 * ms, 50 * ms));
  EXPECT_EQ(column<std::string>(processes, "top_barrier")[1], "cudaStreamSynchronize");
}

TEST(Activity, NothingRecordedIsNothingClaimed) {
  const JobReport empty;
  EXPECT_EQ(sums_of({}, empty, listed("kernels")).row_count(), 0U);
  EXPECT_TRUE(find_problems(empty).empty());
}

TEST(ActivityFindings, EachPlantedProblemIsFound) {
  OneRank rank;
  rank.kernel("k", 0, 200 * ms, 1);
  rank.kernel("k", 400 * ms, 500 * ms, 2);  // launched at 390: 200 ms starved
  rank.call("cudaLaunchKernel", -5, -4, 1);
  rank.call("cudaLaunchKernel", 390 * ms, 391 * ms, 2);
  rank.copy(1, 500 * ms, 560 * ms, 1'000'000, 0, 2, 3);  // pageable, asynchronous: 60 ms
  rank.call("cudaMemcpyAsync", 395 * ms, 396 * ms, 3);
  rank.copy(2, 560 * ms, 575 * ms, 1'000'000, 2, 0, 4);  // synchronous: 15 ms
  rank.call("cudaMemcpy", 397 * ms, 575 * ms, 4);
  rank.call("cudaMalloc", 100 * ms, 130 * ms, 5);
  rank.process().overheads = {{200 * ms, 270 * ms, 1, rank.text("flush"), OverheadKind::buffer_flush, true}};
  Job job;
  job.add(rank, 1);
  const std::vector<Finding> findings = find_problems(job.report());
  EXPECT_THAT(ids(findings), ::testing::UnorderedElementsAre("launch-starved", "pageable-copies", "blocking-copies",
                                                             "allocation-churn", "profiler-overhead"));
  EXPECT_EQ(findings[0].id, "launch-starved");
  EXPECT_EQ(findings[0].severity, FindingSeverity::high);
  EXPECT_NE(findings[0].title.find("20.0%"), std::string::npos) << findings[0].title;
}

TEST(ActivityFindings, SettingUpBeforeTheFirstKernelIsNoFinding) {
  OneRank rank;
  rank.call("cudaMalloc", 0, 900 * ms, 5);
  rank.process().overheads = {{0, 900 * ms, 1, rank.text("init"), OverheadKind::undefined, true}};
  rank.kernel("k", 900 * ms, 1900 * ms, 1);
  rank.call("cudaLaunchKernel", 899 * ms, 900 * ms, 1);
  Job job;
  job.add(rank, 1);
  EXPECT_THAT(ids(find_problems(job.report())), ElementsAre("dominant-kernel"));
}

TEST(ActivityFindings, LaunchStormAndTail) {
  OneRank rank;
  for (int i = 0; i < 50'000; ++i) {
    const Nanoseconds start = i * 10'000;
    rank.kernel("tiny", start, start + (i % 10 == 0 ? 9'900 : 2'000));
  }
  Job job;
  job.add(rank, 1);
  const std::vector<Finding> findings = find_problems(job.report());
  // A tenth of 50,000 take 7,900 ns more than the median: 39.5 ms of the 1000 ms window. Nothing says why the rest is
  // idle.
  EXPECT_THAT(ids(findings), ElementsAre("launch-storm", "kernel-tail"));
  EXPECT_NE(findings[1].title.find("cost 4.0%"), std::string::npos) << findings[1].title;
  EXPECT_NE(findings[1].evidence[0].find("39.500 ms of GPU time more"), std::string::npos) << findings[1].evidence[0];
}

TEST(ActivityFindings, ExecutionsOfAnotherGridAreNoTail) {
  OneRank rank;
  for (int i = 0; i < 5'000; ++i) {
    const Nanoseconds start = i * 200'000;
    rank.kernel("k", start, start + (i % 50 == 0 ? 190'000 : 100'000)).grid_x = i % 50 == 0 ? 8 : 4;
  }
  Job job;
  job.add(rank, 1);
  const JobReport report = job.report();
  EXPECT_THAT(ids(find_problems(report)), ::testing::Not(::testing::Contains("kernel-tail")));
  const Table kernels = sums_of(report.tables, report, listed("kernels"));
  EXPECT_THAT(column<double>(kernels, "tail_score_ns"), ElementsAre(90'000.0 * 5'000))
      << "by name alone there would be one";
}

TEST(ActivityFindings, SlowGpu) {
  Job job;
  std::vector<OneRank> ranks(4);
  for (int r = 0; r < 4; ++r) {
    for (int i = 0; i < 100; ++i) {
      ranks[static_cast<std::size_t>(r)].kernel("gemm", i * ms, i * ms + (r == 2 ? 900'000 : 700'000 + r * 100));
    }
    job.add(ranks[static_cast<std::size_t>(r)], static_cast<std::uint64_t>(r + 1));
  }
  JobReport report = job.report();
  report.tables.push_back(testing::gpu_speed_table({{0, 5, 1.0, 1.0, false}, {2, 5, 1.25, 1e-9, true}}));
  const std::vector<Finding> findings = find_problems(report);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].id, "slow-gpu");
  EXPECT_EQ(findings[0].severity, FindingSeverity::high);
  EXPECT_NE(findings[0].title.find(") takes 25.0% longer"), std::string::npos);
  // One finding for one problem: what makes the others wait says itself that the GPU is slow.
  Straggler& straggler = report.stragglers.emplace_back();
  straggler.trace_rank = 2;
  straggler.trace_ranks = {2};
  const auto has_slow_gpu = [&] {
    const std::vector<Finding> all = find_problems(report);
    return std::any_of(all.begin(), all.end(), [](const Finding& finding) { return finding.id == "slow-gpu"; });
  };
  EXPECT_TRUE(has_slow_gpu()) << "late for another reason";
  straggler.cause = Cause::slow_kernel;
  EXPECT_FALSE(has_slow_gpu());
}

/// Trace ranks 0 to 5, two to a node.
JobReport three_nodes() {
  JobReport report;
  for (std::int32_t r = 0; r < 6; ++r) {
    report.ranks.emplace_back().trace_rank = r;
    TraceRankIdentity& identity = report.trace_ranks.emplace_back();
    identity.trace_rank = r;
    identity.host = "node" + std::to_string(r / 2);
  }
  return report;
}

std::vector<std::string> titles_of(const char* id, const JobReport& report) {
  std::vector<std::string> titles;
  for (const Finding& finding : find_problems(report))
    if (finding.id == id) titles.push_back(finding.title);
  return titles;
}

TEST(ActivityFindings, SlowGpusOfOneNodeAreOneFinding) {
  using ::testing::HasSubstr;
  const auto slow = [](std::int32_t r, double ratio) { return GpuSpeed{r, 5, ratio, 1e-9, true}; };
  JobReport report = three_nodes();
  report.tables = {testing::gpu_speed_table({slow(2, 1.24), slow(3, 1.26)})};
  EXPECT_THAT(
      titles_of("slow-gpu", report),
      ElementsAre("the 2 GPUs of node 'node1' (ranks 2, 3) take 24.0% longer than their peers for the same kernels"));
  report.tables = {testing::gpu_speed_table({slow(2, 1.24), slow(4, 1.26)})};
  EXPECT_THAT(titles_of("slow-gpu", report), ElementsAre(HasSubstr("(rank 2)"), HasSubstr("(rank 4)")))
      << "two nodes with a sound GPU each";
  report.tables = {testing::gpu_speed_table({slow(2, 1.11), slow(3, 1.26)})};
  EXPECT_THAT(titles_of("slow-gpu", report), ElementsAre(HasSubstr("(rank 2)"), HasSubstr("(rank 3)")))
      << "not alike: one trouble does not explain both";
  for (TraceRankIdentity& identity : report.trace_ranks) identity.host = "node1";
  report.tables = {testing::gpu_speed_table({slow(2, 1.24), slow(3, 1.26)})};
  EXPECT_THAT(titles_of("slow-gpu", report), ElementsAre(HasSubstr("(rank 2)"), HasSubstr("(rank 3)")))
      << "the node has others, too";
}

TEST(ClockFindings, GroupsOfSessionsThatNothingRelatesAreTold) {
  JobReport report = three_nodes();
  for (std::int32_t s = 0; s < 6; ++s) {
    SessionClock& clock = report.clock.sessions.emplace_back();
    clock.host = "node" + std::to_string(s / 2);
    clock.uncertainty_ns = 100;
  }
  EXPECT_THAT(titles_of("clocks-unrelated", report), ElementsAre());
  for (const std::size_t s : {2, 3}) report.clock.sessions[s].component = 1;  // related to each other
  const std::vector<Finding> findings = find_problems(report);
  const auto told = std::find_if(findings.begin(), findings.end(),
                                 [](const Finding& finding) { return finding.id == "clocks-unrelated"; });
  ASSERT_NE(told, findings.end());
  EXPECT_EQ(told->evidence[0], "2 groups of sessions: 4 of node0, node2; 2 of node1");
}

TEST(Activity, WithoutGpuWorkHostsAreSummedUp) {
  OneRank rank;
  rank.call("cudaStreamSynchronize", 0, 5 * ms);
  const RankEvents events = rank.events();
  const std::vector<Table> tables{testing::join({api_tables(events)[0]}), testing::join({barriers_table(events)})};
  EXPECT_EQ(figure_of(sums_of(tables, JobReport(), shown("cuda_api")), "cudaStreamSynchronize", "total_ns"), 5 * ms);
  EXPECT_EQ(figure_of(sums_of(tables, JobReport(), shown("barriers")), "cudaStreamSynchronize", "total_ns"), 5 * ms);
}

}  // namespace
}  // namespace nsys_explain::analysis
