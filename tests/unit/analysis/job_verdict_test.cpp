#include "analysis/findings/findings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/problems/find_problems.hpp"

namespace nsys_explain::analysis {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A job of `ranks` trace ranks that matched ten collectives of one communicator of `size` members.
JobReport job(std::int32_t ranks, std::int32_t size) {
  JobReport report;
  report.instances = report.complete = 10;
  CommunicatorSummary communicator;
  communicator.size = size;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    report.inputs.push_back({"rank.sqlite", InputStatus::ok, ""});
    report.ranks.emplace_back().trace_rank = rank;
    TraceRankIdentity& identity = report.trace_ranks.emplace_back();
    identity.trace_rank = rank;
    identity.key.device_id = rank % 4;
    identity.host = "n" + std::to_string(rank / 4);
    communicator.trace_ranks.push_back(rank);
  }
  report.communicators.push_back(communicator);
  return report;
}

TEST(JobVerdict, IsTheFirstFindingThatMatters) {
  JobReport report = job(8, 8);
  Finding late{"straggler", FindingSeverity::medium, "GPU 1 on n1 (rank 5) makes the others wait", {}, "look"};
  late.trace_ranks = {5};
  late.mended = WhatIf{};
  late.mended->saved_share = 0.2;
  report.findings = {{"no-nccl-payload", FindingSeverity::low, "message sizes are not in all traces", {}, "export"},
                     late,
                     {"gpu-idle", FindingSeverity::high, "GPUs idle", {}, ""}};
  const JobVerdict verdict = judge(report);
  EXPECT_EQ(verdict.text, "GPU 1 on n1 (rank 5) makes the others wait.");
  EXPECT_EQ(verdict.finding, "straggler");
  EXPECT_EQ(verdict.severity, FindingSeverity::high) << "of the most severe";
  EXPECT_EQ(verdict.next, "look");
  EXPECT_EQ(verdict.mended->saved_share, 0.2);
  EXPECT_TRUE(verdict.complete);
}

TEST(JobVerdict, IsNeverCalmAboveAFindingThatMatters) {
  JobReport report = job(8, 8);
  report.findings = {{"gpu-idle", FindingSeverity::medium, "GPUs idle for 30% of the time", {}, "batch more"}};
  EXPECT_EQ(judge(report).text, "No rank is late. GPUs idle for 30% of the time.");
  report.suspects.resize(1);
  EXPECT_EQ(judge(report).text, "GPUs idle for 30% of the time.");
  EXPECT_EQ(judge(report).severity, FindingSeverity::medium);
}

TEST(JobVerdict, NamesWhoIsLateHoweverLittleItCosts) {
  JobReport report = job(8, 8);
  report.findings = {{"no-nccl-payload", FindingSeverity::low, "message sizes are not in all traces", {}, "export"},
                     {"unproven-straggler", FindingSeverity::low, "rank 2 seems to make the others wait", {}, ""}};
  EXPECT_EQ(judge(report).text, "Rank 2 seems to make the others wait.");
  EXPECT_EQ(judge(report).severity, FindingSeverity::low);
}

TEST(JobVerdict, OfACleanJobSaysSo) {
  JobReport report = job(8, 8);
  report.findings = {{"no-nccl-payload", FindingSeverity::info, "message sizes are not in all traces", {}, "export"}};
  const JobVerdict verdict = judge(report);
  EXPECT_EQ(verdict.text, "No rank is late.");
  EXPECT_EQ(verdict.finding, "");
  EXPECT_EQ(verdict.severity, FindingSeverity::info);
}

TEST(JobVerdict, SaysFirstWhatIsMissing) {
  JobReport report = job(7, 8);
  const Finding missing{"missing-ranks", FindingSeverity::high, "1 of 8 ranks has no trace", {}, "capture all"};
  report.findings = {missing};
  EXPECT_EQ(judge(report).text, "1 of 8 ranks has no trace.");
  EXPECT_EQ(judge(report).finding, "missing-ranks");
  EXPECT_EQ(judge(report).next, "capture all");
  EXPECT_FALSE(judge(report).complete);
  report.findings.push_back({"straggler", FindingSeverity::high, "rank 2 makes the others wait", {}, "look"});
  EXPECT_EQ(judge(report).text, "1 of 8 ranks has no trace. Rank 2 makes the others wait.");
  EXPECT_EQ(judge(report).finding, "straggler");
  report = job(8, 8);
  report.inputs[3].status = InputStatus::failed;
  EXPECT_EQ(judge(report).text, "1 of 8 inputs failed. No rank of those that were read is late.");
  report = job(8, 8);
  report.findings = {{"partial-report", FindingSeverity::high, "this report is partial", {}, "merge"}};
  EXPECT_EQ(judge(report).text, "This report is partial.");
  EXPECT_FALSE(judge(report).complete);
}

TEST(JobVerdict, WhereNothingCanBeJudgedSaysWhy) {
  JobReport report = job(8, 8);
  report.unjudged = 6;
  EXPECT_THAT(judge(report).text, StartsWith("Lateness cannot be judged: for 6 of 10 matched collectives"));
  report = job(2, 2);
  report.instances = 0;
  EXPECT_THAT(judge(report).text, StartsWith("No communication between the ranks was recorded"));
  report.ranks[1].budget.communication_ns = 1;
  EXPECT_THAT(judge(report).text, HasSubstr("no collective was matched across ranks"));
  report = job(1, 1);
  report.instances = 0;
  report.ranks[0].budget.window_ns = 2'000'000;
  report.ranks[0].budget.compute_ns = 1'900'000;
  report.ranks[0].budget.idle_ns = 100'000;
  EXPECT_EQ(judge(report).text, "Nothing stands out on the one GPU: of 2.00 ms 95.0% are compute, 5.0% are idle.");
  report = JobReport{};
  report.inputs = {{"a.sqlite", InputStatus::degraded, "the export holds no GPU kernels, only 5 NVTX ranges"}};
  EXPECT_EQ(judge(report).text, "The export holds no GPU kernels, only 5 NVTX ranges.");
  report.inputs.push_back({"b.sqlite", InputStatus::degraded, "the export holds no GPU kernels"});
  EXPECT_THAT(judge(report).text, StartsWith("None of 2 inputs holds GPU work; of the first: the export holds"));
}

TEST(JobVerdict, OfInputsWithoutGpuWorkSaysWhatToDoAndNothingOfMissingRanksAndClocks) {
  JobReport report;
  report.inputs = {{"a.sqlite", InputStatus::degraded, "the export holds no kernels: it was idle; open it later"},
                   {"b.sqlite", InputStatus::degraded, "the export holds no kernels: it was idle; open it later"}};
  report.world_size = 2;
  report.clock.sessions.resize(2);  // of two components: nothing relates them
  report.clock.sessions[1].component = 1;
  report.findings = find_problems(report);
  EXPECT_TRUE(report.findings.empty());
  const JobVerdict verdict = judge(report);
  EXPECT_EQ(verdict.text, "None of 2 inputs holds GPU work; of the first: the export holds no kernels: it was idle.");
  EXPECT_EQ(verdict.next, "open it later");
}

}  // namespace
}  // namespace nsys_explain::analysis
