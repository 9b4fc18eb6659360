#include "analysis/problems/find_problems.hpp"

#include <gmock/gmock.h>

#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"
#include "model/schema/links.hpp"
#include "unit/analysis/joined_table.hpp"

/// One finding for one problem: what makes somebody late is not told again by what it looks like elsewhere.
namespace nsys_explain::analysis {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Nanoseconds ms = 1'000'000;

/// Four trace ranks of 1 s each on one node: 4,000 ms of GPU time.
JobReport four_ranks() {
  JobReport report;
  for (std::int32_t r = 0; r < 4; ++r) {
    RankSummary& rank = report.ranks.emplace_back();
    rank.trace_rank = r;
    rank.budget.window_ns = 1000 * ms;
    TraceRankIdentity& identity = report.trace_ranks.emplace_back();
    identity.trace_rank = r;
    identity.host = "node0";
    identity.gpu_name = "H100";
    identity.key.global_pid = static_cast<std::uint64_t>(r);
  }
  report.instances = report.complete = 100;
  return report;
}

Straggler late(std::int32_t trace_rank, Cause cause, Nanoseconds cost_ns) {
  Straggler straggler;
  straggler.trace_rank = trace_rank;
  straggler.trace_ranks = {trace_rank};
  straggler.cause = cause;
  straggler.delay_cost_ns = cost_ns;
  straggler.evidence = {"as late as can be"};
  return straggler;
}

SlowLink link_of_rank(std::int32_t trace_rank, Nanoseconds lost_ns) {
  SlowLink link;
  link.place = LinkPlace::rank;
  link.trace_ranks = {trace_rank};
  link.slowdown = 3;
  link.instances = 7;
  link.lost_ns = lost_ns;
  return link;
}

/// Identifier and cost in ms of each; -1: none.
std::vector<std::pair<std::string, Nanoseconds>> costs(const JobReport& report) {
  std::vector<std::pair<std::string, Nanoseconds>> told;
  for (const Finding& finding : find_problems(report))
    told.emplace_back(finding.id, finding.cost_ns ? *finding.cost_ns / ms : -1);
  return told;
}

/// Adds a table with a row for each trace rank of the report: a label and a time.
void add_times(const schema::Declaration& declaration, const char* label, const char* value, const char* time,
               const std::vector<Nanoseconds>& times, JobReport& report) {
  std::vector<testing::JoinedRow> rows;
  for (std::size_t r = 0; r < times.size(); ++r)
    rows.push_back({static_cast<std::int64_t>(r), {{label, value}}, {{time, times[r]}}});
  report.tables.push_back(testing::joined(declaration, rows));
}

TEST(OneProblem, ASlowLinkTellsOfThoseWhoAreLateByIt) {
  JobReport report = four_ranks();
  report.slow_links = {link_of_rank(2, 50 * ms)};
  report.stragglers = {late(2, Cause::slow_link, 200 * ms)};
  const std::vector<Finding> findings = find_problems(report);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "slow-link");
  EXPECT_EQ(findings[0].cost_ns, 250 * ms);
  EXPECT_EQ(findings[0].severity, FindingSeverity::high) << "6.25% of the GPU time";
  EXPECT_EQ(findings[0].title,
            "transfers through rank 2 take 3.00 times as long as equal ones elsewhere. They cost 6.2% of all GPU time");
  EXPECT_THAT(
      findings[0].evidence,
      Contains(
          "it costs 50.000 ms of GPU time in 7 collectives, and 0.200 GPU-seconds of waiting for who is late by it"));
  EXPECT_THAT(findings[0].evidence, Contains(HasSubstr("has slow transfers")));
  EXPECT_THAT(findings[0].evidence, Contains("as late as can be"));
}

TEST(OneProblem, ASlowLinkNamesTheTestThatShowsIt) {
  JobReport report = four_ranks();
  SlowLink link = link_of_rank(2, 50 * ms);
  link.hosts = {"node0"};
  link.operation = Operation::all_gather;
  link.bytes = 1 << 20;
  link.expected_gbs = 44.8;
  link.measured_gbs = 15.1;
  report.slow_links = {link};
  const Finding within = find_problems(report)[0];
  EXPECT_THAT(within.title, HasSubstr("transfers through rank 2 (GPU 0 on node0) take 3.00 times"));
  EXPECT_THAT(
      within.recommendation,
      HasSubstr(
          "run all_gather_perf -b 1048576 -e 1048576 of nccl-tests on the GPUs of node0: equal links reach 44.8 GB/s (busbw) in this job, this one 15.1"));
  EXPECT_THAT(within.recommendation, HasSubstr("nvlink"));
  report.slow_links[0].place = LinkPlace::node_pair;
  report.slow_links[0].hosts = {"node0", "node1"};
  const std::string between = find_problems(report)[0].recommendation;
  EXPECT_THAT(between, HasSubstr("of nccl-tests and ib_write_bw between just node0 and node1: equal links"));
}

TEST(OneProblem, OfASlowNodeTheAdviceIsTheNodes) {
  JobReport report = four_ranks();
  report.stragglers = {late(2, Cause::slow_kernel, 300 * ms)};
  EXPECT_THAT(find_problems(report)[0].recommendation, HasSubstr("drain the node"));
  report.stragglers[0].level = Level::node;
  report.stragglers[0].place = "node0";
  const Finding finding = find_problems(report)[0];
  EXPECT_THAT(finding.recommendation, HasSubstr("power supply and cooling"));
  EXPECT_THAT(finding.recommendation, HasSubstr("noisy neighbour"));
  EXPECT_EQ(finding.place, "node node0");
}

TEST(OneProblem, WhoIsLateForAnotherReasonOrByALinkThatIsNotKnownHasAFindingOfItsOwn) {
  JobReport report = four_ranks();
  report.slow_links = {link_of_rank(2, 50 * ms)};
  report.stragglers = {late(0, Cause::slow_kernel, 300 * ms), late(2, Cause::slow_kernel, 20 * ms),
                       late(1, Cause::slow_link, 10 * ms)};
  EXPECT_THAT(costs(report), ElementsAre(std::pair("straggler", 300), std::pair("slow-link", 50),
                                         std::pair("straggler", 20), std::pair("straggler", 10)));
}

TEST(OneProblem, ASuspectByALinkIsProvenNothingByIt) {
  JobReport report = four_ranks();
  report.slow_links = {link_of_rank(2, 50 * ms)};
  report.suspects.emplace_back().late = late(2, Cause::slow_link, 200 * ms);
  EXPECT_THAT(costs(report), ElementsAre(std::pair("slow-link", 50)));
  EXPECT_THAT(find_problems(report)[0].evidence, Contains(HasSubstr("seems to make the others wait")));
}

TEST(OneProblem, IdleTimeOfALateHostIsToldWithIt) {
  JobReport report = four_ranks();
  const std::vector<Nanoseconds> idle{400 * ms, 10 * ms, 20 * ms, 30 * ms};
  add_times(schema::idle_causes, "cause", "launch_starved", "total_ns", idle, report);
  for (std::size_t r = 0; r < 4; ++r) report.ranks[r].budget.idle_ns = idle[r];
  EXPECT_THAT(costs(report), ElementsAre(std::pair("launch-starved", 460)));
  report.stragglers = {late(0, Cause::slow_kernel, 900 * ms)};  // late, but not by this
  EXPECT_THAT(costs(report), ElementsAre(std::pair("straggler", 900), std::pair("launch-starved", 460)));
  for (const Cause cause :
       {Cause::launch_starved, Cause::sync_stall, Cause::blocking_copy, Cause::allocation, Cause::profiler_overhead}) {
    report.stragglers = {late(0, cause, 900 * ms)};
    EXPECT_THAT(costs(report), ElementsAre(std::pair("straggler", 900)));
  }
  // What others have, too, is nobody's: of 1,090 ms rank 0 has 230 more than the median of 10, 200 and 450.
  report.tables.clear();
  add_times(schema::idle_causes, "cause", "launch_starved", "total_ns", {430 * ms, 10 * ms, 200 * ms, 450 * ms},
            report);
  EXPECT_THAT(costs(report), ElementsAre(std::pair("straggler", 900), std::pair("launch-starved", 860)));
  EXPECT_THAT(
      find_problems(report)[1].title,
      "21.5% of GPU time is idle because the host launched the next work too late, besides that of ranks that are late by it");
  EXPECT_THAT(find_problems(report)[1].evidence, Contains(HasSubstr("0.230 GPU-seconds more than is usual on rank 0")));
}

TEST(OneProblem, IdleTimeOfASuspectIsToldWithIt) {
  JobReport report = four_ranks();
  for (std::size_t r = 0; r < 4; ++r) report.ranks[r].budget.idle_ns = r == 1 ? 300 * ms : 0;
  report.suspects.emplace_back().late = late(1, Cause::sync_stall, 400 * ms);
  EXPECT_THAT(costs(report), ElementsAre(std::pair("unproven-straggler", 400)));
}

TEST(OneProblem, CopiesAndAllocationsThatMakeSomebodyLateAreToldWithIt) {
  JobReport report = four_ranks();
  add_times(schema::expert_rules, "rule", "cuda_memcpy_sync", "total_ns", {0, 0, 0, 200 * ms}, report);
  report.ranks[3].budget.copy_ns = 200 * ms;
  add_times(schema::allocations, "name", "cudaMalloc", "in_window_ns", {0, 0, 300 * ms, 0}, report);
  EXPECT_THAT(costs(report), ElementsAre(std::pair("blocking-copies", 200), std::pair("allocation-churn", -1)));
  report.stragglers = {late(3, Cause::blocking_copy, 500 * ms)};
  EXPECT_THAT(costs(report), ElementsAre(std::pair("straggler", 500), std::pair("allocation-churn", -1)));
  report.stragglers.push_back(late(2, Cause::allocation, 400 * ms));
  EXPECT_THAT(costs(report), ElementsAre(std::pair("straggler", 500), std::pair("straggler", 400)));
}

TEST(OneProblem, ASlowGpuIsToldWithWhoIsLateByItProvenOrNot) {
  JobReport report = four_ranks();
  report.ranks[1].budget.compute_ns = 500 * ms;
  report.tables = {testing::gpu_speed_table({{1, 5, 1.25, 1e-9, true}})};
  EXPECT_THAT(costs(report), ElementsAre(std::pair("slow-gpu", 100)));
  report.suspects.emplace_back().late = late(1, Cause::slow_kernel, 60 * ms);
  EXPECT_THAT(costs(report), ElementsAre(std::pair("unproven-straggler", 60)));
  report.suspects[0].late.cause = Cause::launch_starved;
  EXPECT_THAT(costs(report), ElementsAre(std::pair("slow-gpu", 100), std::pair("unproven-straggler", 60)));
}

TEST(OneProblem, ThrottlingIsToldWithWhoIsSlowByIt) {
  JobReport report = four_ranks();
  Table throttling = make_table({"gpu_throttling",
                                 "",
                                 {{"trace_rank", ColumnKind::integer, "", ""},
                                  {"source", ColumnKind::text, "", ""},
                                  {"start_ns", ColumnKind::time, "ns", ""},
                                  {"end_ns", ColumnKind::time, "ns", ""},
                                  {"lowest_sm_clock_mhz", ColumnKind::real, "MHz", ""},
                                  {"by_driver", ColumnKind::integer, "", ""}}});
  RowWriter rows(throttling);
  for (const std::int64_t rank : {1, 3}) rows << rank << "nvml" << std::int64_t{0} << 50 * ms << 1200.0 << false;
  report.tables = {throttling};
  EXPECT_EQ(find_problems(report)[0].title, "the GPUs of 2 ranks ran slower than they can while they were used");
  report.stragglers = {late(1, Cause::slow_kernel, 60 * ms)};
  EXPECT_EQ(find_problems(report)[1].title, "the GPU of 1 more rank ran slower than they can while they were used");
  report.stragglers.push_back(late(3, Cause::slow_kernel, 50 * ms));
  EXPECT_THAT(costs(report), ElementsAre(std::pair("straggler", 60), std::pair("straggler", 50)));
}

TEST(OneProblem, NvlinksOfASlowLinkAreToldWithIt) {
  JobReport report = four_ranks();
  std::vector<testing::JoinedRow> rows;
  for (std::int64_t r = 0; r < 4; ++r)
    rows.push_back({r, {{"metric", "NVLink RX"}, {"operation", "all"}}, {{"mean_during_percent", r == 2 ? 20 : 50}}});
  report.tables = {testing::joined(schema::nvlink, rows)};
  EXPECT_THAT(costs(report), ElementsAre(std::pair("nvlink-asymmetry", -1)));
  report.slow_links = {link_of_rank(2, 50 * ms)};
  EXPECT_THAT(costs(report), ElementsAre(std::pair("slow-link", 50)));
  report.slow_links = {link_of_rank(1, 50 * ms)};
  EXPECT_THAT(costs(report), ElementsAre(std::pair("slow-link", 50), std::pair("nvlink-asymmetry", -1)));
}

}  // namespace
}  // namespace nsys_explain::analysis
