#include "analysis/problems/find_problems.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"
#include "unit/analysis/joined_table.hpp"

namespace nsys_explain::analysis {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Nanoseconds ms = 1'000'000;

/// Two trace ranks of 1 s each: 2,000 ms of GPU time.
JobReport two_ranks() {
  JobReport report;
  for (std::int32_t r = 0; r < 2; ++r) {
    RankSummary& rank = report.ranks.emplace_back();
    rank.trace_rank = r;
    rank.budget.window_ns = 1000 * ms;
    TraceRankIdentity& identity = report.trace_ranks.emplace_back();
    identity.trace_rank = r;
    identity.host = "node" + std::to_string(r);
  }
  report.instances = report.complete = 100;
  return report;
}

Straggler late(std::int32_t trace_rank, Nanoseconds cost_ns) {
  Straggler straggler;
  straggler.trace_rank = trace_rank;
  straggler.trace_ranks = {trace_rank};
  straggler.delay_cost_ns = cost_ns;
  straggler.cost_share = static_cast<double>(cost_ns) / (2000 * ms);
  return straggler;
}

/// Idle time of rank 0 whose cause is a late launch.
void add_idle(std::int64_t gaps, Nanoseconds total_ns, Nanoseconds longest_ns, JobReport& report) {
  report.tables.push_back(testing::joined(
      schema::idle_causes,
      {{0, {{"cause", "launch_starved"}}, {{"count", gaps}, {"total_ns", total_ns}, {"max_ns", longest_ns}}}}));
}

/// Of each rank so much communication that no compute hides; of that so much before its last member had entered.
void expose(JobReport& report, Nanoseconds exposed_ns, Nanoseconds waited_ns = 0) {
  report.exposed.clear();
  for (RankSummary& rank : report.ranks) {
    rank.budget.exposed_communication_ns = exposed_ns;
    ExposedTime& exposed = report.exposed.emplace_back();
    exposed.trace_rank = rank.trace_rank;
    exposed.duration_ns[static_cast<std::size_t>(CollectivePhase::arrival_skew)][0] = waited_ns;
    exposed.duration_ns[static_cast<std::size_t>(CollectivePhase::transfer)][0] = exposed_ns - waited_ns;
  }
}

/// Identifier and cost in ms of each; -1: none.
std::vector<std::pair<std::string, Nanoseconds>> costs(const JobReport& report) {
  std::vector<std::pair<std::string, Nanoseconds>> told;
  for (const Finding& finding : find_problems(report))
    told.emplace_back(finding.id, finding.cost_ns ? *finding.cost_ns / ms : -1);
  return told;
}

TEST(FindingCosts, OfOneSeverityTheCostliestComesFirst) {
  JobReport report = two_ranks();
  expose(report, 56 * ms);  // 5.6% of the GPU time
  for (RankSummary& rank : report.ranks) rank.budget.idle_ns = 170 * ms;
  add_idle(10, 326 * ms, 6 * ms, report);  // 16.3%
  EXPECT_THAT(costs(report), ElementsAre(std::pair("launch-starved", 326), std::pair("exposed-communication", 112)));
  // 14 ms of idle time are left, too few for a finding. A straggler of medium severity goes between the two, and what
  // waits for it is not counted again: of 162 ms 102 are left.
  expose(report, 81 * ms, 30 * ms);
  report.stragglers = {late(1, 60 * ms)};
  EXPECT_THAT(costs(report), ElementsAre(std::pair("launch-starved", 326), std::pair("exposed-communication", 102),
                                         std::pair("straggler", 60)));
  // A severe one comes before all of these: 120 of 2,000 ms are 6%. All communication waits for it and is no problem of
  // its own.
  expose(report, 56 * ms, 56 * ms);
  report.stragglers = {late(1, 120 * ms)};
  EXPECT_THAT(costs(report), ElementsAre(std::pair("straggler", 120), std::pair("launch-starved", 326)));
}

TEST(FindingCosts, CommunicationIsAsSevereAsWhatLateRanksDoNotExplain) {
  JobReport report = two_ranks();
  expose(report, 250 * ms);  // 25% of the GPU time
  const auto exposed = [&]() -> std::optional<Finding> {
    std::vector<Finding> findings = find_problems(report);
    const auto found = std::find_if(findings.begin(), findings.end(),
                                    [](const Finding& f) { return f.id == "exposed-communication"; });
    return found == findings.end() ? std::nullopt : std::optional(*found);
  };
  EXPECT_EQ(exposed()->severity, FindingSeverity::high);
  EXPECT_EQ(exposed()->title, "25.0% of GPU time is transfers that no compute hides");
  report.stragglers = {late(1, 300 * ms)};
  expose(report, 250 * ms, 150 * ms);
  EXPECT_EQ(exposed()->severity, FindingSeverity::medium);
  EXPECT_EQ(exposed()->title, "10.0% of GPU time is transfers that no compute hides");
  report.stragglers = {late(1, 420 * ms)};
  expose(report, 250 * ms, 210 * ms);  // 80 of 2,000 ms are left: 4%
  EXPECT_EQ(exposed(), std::nullopt);
}

TEST(FindingCosts, WhatASuspectIsPartOfIsNotTakenOffTwice) {
  JobReport report = two_ranks();
  expose(report, 90 * ms);
  report.complete = 0;  // so that waiting and transfers cannot be separated
  report.partial = 100;
  report.delay.rotating = true;
  report.delay.attributed_ns = 50 * ms;  // of these, 40 ms are those of the suspect
  report.ranks[0].caused_wait_ns = 40 * ms;
  report.ranks[1].caused_wait_ns = 10 * ms;
  report.suspects.emplace_back().late = late(0, 40 * ms);
  EXPECT_THAT(costs(report), Contains(std::pair("exposed-communication", 130)));  // 180 - 50
}

TEST(Findings, WhereKernelsDifferNowHereNowThereBalancingThemIsPriced) {
  JobReport report = two_ranks();
  report.delay.rotating = true;
  report.delay.attributed_ns = 50 * ms;
  for (RankSummary& rank : report.ranks) rank.caused_wait_ns = 25 * ms;
  WhatIf balanced;
  balanced.subject = "work_balanced";
  balanced.saved_share = 0.4;
  balanced.step_ns_before = 10 * ms;
  balanced.step_ns_after = 6 * ms;
  report.what_if = {balanced};
  const auto rotating = [&] {
    const std::vector<Finding> findings = find_problems(report);
    return *std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.id == "rotating-delay"; });
  };
  EXPECT_NE(rotating().title.find("Balancing it shortens a step from 10.0 to 6.00 ms (-40.0%)"), std::string::npos)
      << rotating().title;
  EXPECT_EQ(rotating().mended->saved_share, 0.4);
  report.what_if[0].saved_share = 0.02;  // as by chance, or pauses of hosts: there is nothing to share out
  EXPECT_FALSE(rotating().mended);
  EXPECT_EQ(rotating().title.find("Balancing"), std::string::npos);
}

TEST(Findings, WhatHasNoEffectSavesNothing) {
  JobReport report = two_ranks();
  report.stragglers = {late(1, 300 * ms)};
  WhatIf mended;
  mended.subject = "trace_rank";
  mended.trace_ranks = {1};
  mended.finding = "straggler";
  mended.saved_share = 0.0004;
  mended.step_ns_before = mended.step_ns_after = 10 * ms;
  report.what_if = {mended};
  const std::string title = find_problems(report).front().title;
  EXPECT_TRUE(title.ends_with(". Fixing it saves nothing")) << title;
}

TEST(FindingCosts, WhatTheTracesDoNotTellComesLastOfItsSeverity) {
  JobReport report = two_ranks();
  expose(report, 60 * ms);
  for (RankSummary& rank : report.ranks) rank.budget.opaque_graph_ns = 100 * ms;
  EXPECT_THAT(costs(report), ElementsAre(std::pair("exposed-communication", 120), std::pair("opaque-graphs", -1)));
}

TEST(FindingCosts, OfASlowGpuItIsWhatItsKernelsTakeLonger) {
  JobReport report = two_ranks();
  report.ranks[1].budget.compute_ns = 500 * ms;
  report.tables = {testing::gpu_speed_table({{1, 5, 1.25, 1e-9, true}})};
  EXPECT_THAT(costs(report), ElementsAre(std::pair("slow-gpu", 100))) << "at its peers' speed 400 ms";
}

TEST(FindingCosts, OfSuspectsTheyAreAsSaid) {
  JobReport report = two_ranks();
  SuspectedStraggler unproven, unseen;
  unproven.late = late(0, 40 * ms);
  unseen.late = late(1, 1 * ms);
  unseen.doubt = Doubt::unseen;
  unseen.estimated_cost_ns = 30 * ms;
  unseen.unseen_cost_share = 0.02;
  report.suspects = {unproven, unseen};
  EXPECT_THAT(costs(report), ElementsAre(std::pair("unproven-straggler", 40), std::pair("unseen-straggler", 30)));
}

TEST(Findings, AnEmptyReportHasNone) {
  EXPECT_TRUE(find_problems({}).empty());
}

/// The replay of a job without the lateness of one trace rank.
WhatIf without(std::int32_t trace_rank, double saved_share) {
  WhatIf what_if;
  what_if.subject = "trace_rank";
  what_if.trace_ranks = {trace_rank};
  what_if.finding = "straggler";
  what_if.saved_share = saved_share;
  what_if.low_share = saved_share - 0.01;
  what_if.high_share = saved_share + 0.02;
  what_if.step_ns_before = 34 * ms;
  what_if.step_ns_after = std::llround((1 - saved_share) * 34 * ms);
  return what_if;
}

TEST(FindingSavings, WhatMendingSavesOrdersAndGradesFindings) {
  JobReport report = two_ranks();
  add_idle(10, 900 * ms, 6 * ms, report);  // 45%, but who knows what it saves
  for (RankSummary& rank : report.ranks) rank.budget.idle_ns = 450 * ms;
  report.stragglers = {late(0, 300 * ms), late(1, 100 * ms)};
  for (Straggler& straggler : report.stragglers) straggler.cause = Cause::slow_kernel;
  report.what_if = {without(0, 0.03), without(1, 0.22)};
  std::vector<Finding> findings = find_problems(report);
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(
      findings[0].title,
      "GPU 0 on node1 (rank 1) runs slower than its peers. Fixing it shortens a step from 34.0 to 26.5 ms (-22.0%, 95% interval 21.0 to 24.0%)");
  EXPECT_EQ(findings[0].severity, FindingSeverity::high);
  EXPECT_EQ(findings[0].mended->saved_share, 0.22);
  EXPECT_THAT(findings[0].trace_ranks, ElementsAre(1));
  EXPECT_EQ(findings[0].place, "GPU 0 on node1");
  EXPECT_EQ(findings[1].severity, FindingSeverity::medium) << "3%";
  EXPECT_EQ(findings[2].id, "launch-starved");
  report.what_if = {without(0, 0.004), without(1, 0.003)};
  findings = find_problems(report);
  EXPECT_EQ(findings[0].id, "launch-starved");
  EXPECT_EQ(findings[1].severity, FindingSeverity::low) << "0.4%";
}

TEST(FindingSavings, HiddenTransfersAreABoundAndNoMend) {
  JobReport report = two_ranks();
  expose(report, 250 * ms);
  WhatIf hidden;
  hidden.subject = "communication_hidden";
  hidden.finding = "exposed-communication";
  hidden.saved_share = 0.02;
  hidden.step_ns_before = 100 * ms;
  hidden.step_ns_after = 98 * ms;
  report.what_if = {hidden};
  const Finding finding = find_problems(report)[0];
  EXPECT_THAT(finding.title, ::testing::EndsWith("Hiding them all shortens a step from 100 to 98.0 ms (-2.0%)"));
  EXPECT_EQ(finding.severity, FindingSeverity::low) << "high by its share of GPU time";
  EXPECT_FALSE(finding.mended);
}

TEST(Findings, WaitingIsNoTransfer) {
  JobReport report = two_ranks();
  expose(report, 250 * ms, 150 * ms);
  for (RankSummary& rank : report.ranks) {
    rank.budget.communication_ns = 250 * ms;
    rank.wait_ns = 150 * ms;
  }
  EXPECT_THAT(costs(report), ElementsAre(std::pair("exposed-communication", 200)));
  expose(report, 250 * ms, 240 * ms);
  for (RankSummary& rank : report.ranks) rank.wait_ns = 240 * ms;
  EXPECT_THAT(costs(report), ElementsAre()) << "nobody is late, so nobody is to be looked for";
  Table places = make_table({"rank_places",
                             "",
                             {{"trace_rank", ColumnKind::integer, "", ""},
                              {"level", ColumnKind::text, "", ""},
                              {"place", ColumnKind::text, "", ""}}});
  RowWriter(places) << std::int64_t{0} << "pipeline_stage"
                    << "0" << std::int64_t{1} << "pipeline_stage"
                    << "1";
  report.tables = {places};
  EXPECT_THAT(costs(report), ElementsAre(std::pair("pipeline-bubble", 480)));
}

TEST(Findings, WithoutATraceRankNothingIsClaimedThatOnlyItCouldShow) {
  JobReport report = two_ranks();
  for (RankSummary& rank : report.ranks) rank.budget.exposed_communication_ns = 250 * ms;
  report.trace_ranks[1].trace_rank = report.ranks[1].trace_rank = 2;
  CommunicatorSummary& world = report.communicators.emplace_back();
  world.trace_ranks = {0, 2};
  world.size = 3;
  report.complete = 0;
  report.partial = 100;
  for (TraceRankIdentity& identity : report.trace_ranks) identity.rank_source = RankSource::nccl_payload;
  const std::vector<Finding> findings = find_problems(report);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "missing-ranks");
  EXPECT_EQ(findings[0].severity, FindingSeverity::high);
  EXPECT_EQ(findings[0].title,
            "1 of 3 ranks (rank 1) has no trace: all 100 collectives lack it, so who is late cannot be seen");
  EXPECT_EQ(findings[1].id, "exposed-communication");
  EXPECT_EQ(findings[1].severity, FindingSeverity::low);
  EXPECT_THAT(findings[1].title, HasSubstr("of which waiting and transfers cannot be separated"));
}

TEST(Findings, MissingRanksAreCountedWhereANumberIsHuge) {
  JobReport report = two_ranks();
  report.trace_ranks[1].trace_rank = report.ranks[1].trace_rank =
      2'147'483'647;  // as of a file named by a date, or worse
  report.world_size = 4;
  for (TraceRankIdentity& identity : report.trace_ranks) identity.rank_source = RankSource::file_name;
  report.complete = 0;
  report.partial = 100;
  EXPECT_THAT(find_problems(report)[0].title, HasSubstr("2147483646 of 2147483648 ranks have no trace"));
}

TEST(Findings, AnExportThatDoesNotTellItsCommunicatorIsNoMissingTrace) {
  JobReport report = two_ranks();
  for (RankSummary& rank : report.ranks) rank.budget.communication_ns = 50 * ms;
  CommunicatorSummary& world = report.communicators.emplace_back();
  world.trace_ranks = {0};
  world.size = 2;
  world.instances = 60;
  report.instances = report.partial = 60;
  report.complete = 0;
  report.trace_ranks[1].key.path = "b.sqlite";
  report.inputs = {{"a.sqlite", InputStatus::ok, ""}, {"b.sqlite", InputStatus::degraded, "holds no NVTX ranges"}};
  const std::vector<Finding> findings = find_problems(report);
  EXPECT_EQ(findings[0].id, "missing-ranks");
  EXPECT_EQ(findings[0].title,
            "nothing tells the communicator of rank 1: all 60 collectives lack it, so who is late cannot be seen");
  EXPECT_EQ(findings[0].evidence[0], "holds no NVTX ranges");
  // Of four such members one is not there for sure.
  report.communicators[0].size = 3;
  EXPECT_EQ(find_problems(report)[0].title,
            "1 of 3 ranks has no trace: all 60 collectives lack it, so who is late cannot be seen");
}

TEST(Findings, ProcessesWithoutGpuWorkThatCallNcclAreMissing) {
  JobReport report = two_ranks();
  report.trace_ranks[0].key.global_pid = 1;
  report.trace_ranks[1].key.global_pid = 2;
  report.instances = report.complete = 0;
  report.unmatched_arrivals = 70;
  report.untraced_processes = 3;
  const std::vector<Finding> findings = find_problems(report);
  EXPECT_EQ(findings[0].id, "missing-ranks");
  EXPECT_EQ(findings[0].severity, FindingSeverity::high);
  EXPECT_EQ(
      findings[0].title,
      "3 of 5 processes have NCCL calls but no GPU work: nsys did not trace their CUDA, so who is late cannot be seen");
}

/// Trace ranks with GPUs of these UUIDs.
JobReport on_gpus(const std::vector<const char*>& uuids) {
  JobReport report;
  for (const char* uuid : uuids) {
    RankSummary& rank = report.ranks.emplace_back();
    rank.trace_rank = static_cast<std::int32_t>(report.ranks.size()) - 1;
    rank.budget.window_ns = 1000 * ms;
    TraceRankIdentity& identity = report.trace_ranks.emplace_back();
    identity.trace_rank = rank.trace_rank;
    identity.host = "node0";
    identity.gpu_uuid = uuid;
  }
  report.instances = report.complete = 100;
  return report;
}

TEST(Findings, TraceRanksThatShareAGpuAreTold) {
  JobReport report = on_gpus({"aa", "bb", "aa", "cc", "bb", "bb", ""});
  const std::vector<Finding> findings = find_problems(report);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "shared-gpus");
  EXPECT_EQ(findings[0].severity, FindingSeverity::info) << "it may be meant";
  EXPECT_EQ(findings[0].title, "5 ranks share 2 GPUs");
  EXPECT_EQ(findings[0].evidence[0], "ranks 0, 2: GPU 0 on node0, UUID aa");
  EXPECT_EQ(findings[0].evidence[1], "ranks 1, 4, 5: GPU 0 on node0, UUID bb");
  EXPECT_TRUE(findings[0].trace_ranks.empty()) << "it names nobody";
  EXPECT_TRUE(find_problems(on_gpus({"aa", "bb", "", ""})).empty());
  for (TraceRankIdentity& identity : report.trace_ranks) identity.is_gpu_presumed = true;
  EXPECT_TRUE(find_problems(report).empty()) << "each may have had its GPU as its device 0";
}

TEST(Findings, WhoSharesItsGpuIsNotToldToCompareClocks) {
  JobReport report = on_gpus({"aa", "aa", "bb"});
  Straggler straggler = late(1, 300 * ms);
  straggler.cause = Cause::slow_kernel;
  report.stragglers = {straggler};
  const auto advice = [&] { return find_problems(report)[0].recommendation; };
  EXPECT_THAT(advice(), HasSubstr("compare its share of the GPU"));
  EXPECT_THAT(advice(), ::testing::Not(HasSubstr("drain")));
  report.stragglers[0].trace_rank = 2;
  report.stragglers[0].trace_ranks = {2};
  EXPECT_THAT(advice(), HasSubstr("drain the node"));
}

/// One trace rank of 1 s with these kernels: name, count, total.
JobReport one_rank(const std::vector<std::tuple<const char*, int, Nanoseconds>>& kernels) {
  JobReport report = two_ranks();
  report.ranks.pop_back();
  report.trace_ranks.pop_back();
  report.instances = report.complete = 0;
  Table table = make_table({"kernels",
                            "",
                            {{"trace_rank", ColumnKind::integer, "", ""},
                             {"name", ColumnKind::text, "", ""},
                             {"communication", ColumnKind::integer, "", ""},
                             {"count", ColumnKind::integer, "", ""},
                             {"total_ns", ColumnKind::integer, "ns", ""}}});
  RowWriter rows(table);
  for (const auto& [name, count, total_ns] : kernels)
    rows << std::int64_t{0} << name << std::int64_t{0} << std::int64_t{count} << total_ns;
  report.tables = {table};
  return report;
}

TEST(Findings, OfOneGpuTheKernelThatTakesMostOfTheTimeIsOne) {
  const std::vector<Finding> findings = find_problems(one_rank({{"copy", 5, 20 * ms}, {"solve", 2, 970 * ms}}));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "dominant-kernel");
  EXPECT_EQ(findings[0].title, "97.0% of GPU time is one kernel: solve");
  EXPECT_THAT(findings[0].evidence[0], HasSubstr("2 executions, 485 ms each"));
  EXPECT_TRUE(find_problems(one_rank({{"copy", 5, 200 * ms}, {"solve", 2, 400 * ms}})).empty());
}

TEST(Findings, CollectivesOfOneTraceRankHaveOtherMembers) {
  JobReport report = one_rank({{"solve", 20, 600 * ms}, {"ncclDevKernel_ReduceScatter_Sum_f16", 30, 200 * ms}});
  std::get<std::vector<std::int64_t>>(report.tables[0].columns[2])[1] = 1;  // communication
  report.communicators.emplace_back().trace_ranks = {0};
  report.communicators[0].size = 1;
  report.unmatched_arrivals = 30;
  std::vector<Finding> findings = find_problems(report);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].title,
            "at least 1 rank has no trace: all 30 communication kernels lack it, so who is late cannot be seen");
  EXPECT_EQ(findings[1].id, "dominant-kernel");
  EXPECT_EQ(findings[1].severity, FindingSeverity::low);
  EXPECT_THAT(findings[1].recommendation, ::testing::Not(HasSubstr("before anything else")));
  report.communicators[0].evidence = Evidence::nccl_payload;  // which tells that it has one member
  EXPECT_EQ(find_problems(report)[0].id, "dominant-kernel");
}

TEST(Findings, AGpuThatIsSlowForAMomentIsNot) {
  JobReport report = two_ranks();
  Table throttling = make_table({"gpu_throttling",
                                 "",
                                 {{"trace_rank", ColumnKind::integer, "", ""},
                                  {"source", ColumnKind::text, "", ""},
                                  {"start_ns", ColumnKind::time, "ns", ""},
                                  {"end_ns", ColumnKind::time, "ns", ""},
                                  {"samples", ColumnKind::integer, "", ""},
                                  {"lowest_sm_clock_mhz", ColumnKind::real, "MHz", ""},
                                  {"by_driver", ColumnKind::integer, "", ""}}});
  RowWriter(throttling) << std::int64_t{0} << "gpu_metrics" << std::int64_t{0} << 49 * ms << std::int64_t{49} << 900.0
                        << std::int64_t{0} << std::int64_t{1} << "gpu_metrics" << std::int64_t{0} << 30 * ms
                        << std::int64_t{30} << 900.0 << std::int64_t{0} << std::int64_t{1} << "gpu_metrics" << 500 * ms
                        << 521 * ms << std::int64_t{21} << 900.0 << std::int64_t{0};
  report.tables = {throttling};
  const std::vector<Finding> findings = find_problems(report);  // of 1 s: 4.9% of rank 0, 5.1% of rank 1
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "gpu-throttling");
  ASSERT_EQ(findings[0].evidence.size(), 1U);
  EXPECT_THAT(findings[0].evidence[0], HasSubstr("rank 1: 2 spans, 0.051 s"));
}

TEST(Findings, WhatHappenedOnceIsPricedInTime) {
  JobReport report = two_ranks();
  report.stragglers = {late(1, 300 * ms)};
  report.stragglers[0].cause = Cause::launch_starved;
  WhatIf once = without(1, 0.31);
  once.low_share = once.high_share = std::nullopt;
  once.pauses = 1;
  once.pauses_ns = 620 * ms;
  report.what_if = {once};
  EXPECT_THAT(find_problems(report)[0].title, ::testing::EndsWith("Fixing it saves one pause of 620 ms (-31.0%)"));
}

TEST(Findings, ACaptureWithHardlyAnyWorkIsCalledThat) {
  JobReport report = one_rank({{"first", 1, 400'000}});
  report.ranks[0].budget.idle_ns = 1000 * ms - 400'000;
  add_idle(10, 999 * ms, 900 * ms, report);
  const std::vector<Finding> findings = find_problems(report);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].title,
            "the capture holds 400 us of GPU work in 1.00 s: it shows how the program starts, not how it runs");
  EXPECT_EQ(findings[0].severity, FindingSeverity::medium);
  EXPECT_EQ(findings[1].severity, FindingSeverity::low) << findings[1].title;
}

TEST(Findings, StateTheirNumbers) {
  JobReport report;
  report.instances = report.complete = 1;
  report.ranks.resize(2);
  for (RankSummary& rank : report.ranks) {
    rank.budget.window_ns = 1'000'000'000;
    rank.budget.idle_ns = 100'000'000;
  }
  expose(report, 300'000'000);
  const auto findings = find_problems(report);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "exposed-communication");
  EXPECT_EQ(findings[0].severity, FindingSeverity::high);
  EXPECT_NE(findings[0].title.find("30.0%"), std::string::npos);
  EXPECT_EQ(findings[1].id, "gpu-idle");
  EXPECT_EQ(findings[1].severity, FindingSeverity::medium);
  EXPECT_NE(findings[1].evidence[0].find("0.200 of 2.000 GPU-seconds"), std::string::npos);
}

TEST(Findings, TellCopiesOnce) {
  JobReport report;
  report.ranks.resize(1);
  report.ranks[0].budget.window_ns = 1'000'000'000;
  report.ranks[0].budget.copy_ns = 900'000'000;
  const auto blocking = [](Nanoseconds total_ns) {
    return testing::joined(schema::expert_rules, {{0, {{"rule", "cuda_memcpy_sync"}}, {{"total_ns", total_ns}}}});
  };
  report.tables = {blocking(300'000'000), testing::joined(schema::memory_transfers,
                                                          {{0,
                                                            {{"operation", "[CUDA memcpy Host-to-Device]"}},
                                                            {{"total_ns", 900'000'000}, {"bytes", 18'000'000'000}}}})};
  auto findings = find_problems(report);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "exposed-copies");
  EXPECT_EQ(findings[1].id, "blocking-copies");
  EXPECT_EQ(findings[0].title, "60.0% of GPU time is copies that no kernel hides, besides those of other findings");
  EXPECT_EQ(findings[0].cost_ns, 600'000'000);
  EXPECT_EQ(findings[1].cost_ns, 300'000'000);
  EXPECT_NE(findings[0].evidence[1].find("20.0 GB/s"), std::string::npos) << findings[0].evidence[1];
  report.tables[0] = blocking(900'000'000);
  EXPECT_EQ(find_problems(report).size(), 1U);
}

TEST(Findings, TellIdleTimeOnce) {
  JobReport report;
  report.ranks.resize(1);
  report.ranks[0].budget.window_ns = 1'000'000'000;
  report.ranks[0].budget.idle_ns = 300'000'000;
  add_idle(1, 270'000'000, 0, report);
  auto findings = find_problems(report);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "launch-starved");
  EXPECT_NE(findings[0].evidence[0].find("idle for 0.300 of 1.000"), std::string::npos) << findings[0].evidence[0];
  report.tables.clear();
  add_idle(1, 100'000'000, 0, report);
  findings = find_problems(report);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "gpu-idle");
  EXPECT_EQ(findings[0].title, "GPUs are idle for 20.0% of their time for other reasons");
  EXPECT_EQ(findings[0].cost_ns, 200'000'000);
  EXPECT_EQ(findings[1].id, "launch-starved");
}

}  // namespace
}  // namespace nsys_explain::analysis
