#include "analysis/findings/job_verdict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

void make_late(JobReport& report, std::int32_t trace_rank) {
  Straggler straggler;
  straggler.trace_rank = trace_rank;
  straggler.trace_ranks = {trace_rank};
  report.stragglers.push_back(straggler);
}

TEST(JobVerdict, TellsWhoIsLateWithItsPlaceBeforeWhatTheWholeJobHas) {
  JobReport report = job(8, 8);
  make_late(report, 5);
  report.findings = {
      {"gpu-idle", FindingSeverity::high, "GPUs idle", {}, ""},
      {"straggler", FindingSeverity::high, "trace rank 5 makes the others wait", {}, "look at its clocks"}};
  const JobVerdict verdict = judge(report);
  EXPECT_EQ(verdict.text, "Trace rank 5 (GPU 1 on n1) makes the others wait.");
  EXPECT_EQ(verdict.finding, "straggler");
  EXPECT_EQ(verdict.severity, FindingSeverity::high);
  EXPECT_EQ(verdict.next, "look at its clocks");
  EXPECT_TRUE(verdict.complete);
}

TEST(JobVerdict, IsNeverCalmAboveAFindingThatMatters) {
  JobReport report = job(8, 8);
  report.findings = {{"gpu-idle", FindingSeverity::medium, "GPUs idle for 30% of the time", {}, "batch more"}};
  EXPECT_EQ(judge(report).text, "GPUs idle for 30% of the time.");
  EXPECT_EQ(judge(report).severity, FindingSeverity::medium);
}

TEST(JobVerdict, NamesWhoIsLateHoweverLittleItCosts) {
  JobReport report = job(8, 8);
  report.suspects.emplace_back().late.trace_rank = 2;
  report.suspects.back().late.trace_ranks = {2};
  report.findings = {
      {"no-nccl-payload", FindingSeverity::low, "message sizes are not in all traces", {}, "export"},
      {"unproven-straggler", FindingSeverity::low, "trace rank 2 seems to make the others wait", {}, ""}};
  EXPECT_EQ(judge(report).text, "Trace rank 2 (GPU 2 on n0) seems to make the others wait.");
  EXPECT_EQ(judge(report).severity, FindingSeverity::low);
}

TEST(JobVerdict, OfACleanJobSaysSo) {
  JobReport report = job(8, 8);
  report.findings = {{"no-nccl-payload", FindingSeverity::info, "message sizes are not in all traces", {}, "export"}};
  const JobVerdict verdict = judge(report);
  EXPECT_EQ(verdict.text, "No trace rank is significantly late.");
  EXPECT_EQ(verdict.finding, "");
  EXPECT_EQ(verdict.severity, FindingSeverity::info);
}

TEST(JobVerdict, SaysFirstWhatIsMissing) {
  JobReport report = job(7, 8);
  EXPECT_EQ(judge(report).text,
            "1 of 8 ranks has no trace, so who is late may be missing here. No trace rank is significantly late.");
  EXPECT_FALSE(judge(report).complete);
  report = job(8, 8);
  report.inputs[3].status = InputStatus::failed;
  EXPECT_THAT(judge(report).text, StartsWith("1 of 8 inputs failed. "));
  report = job(8, 8);
  report.findings = {{"partial-report", FindingSeverity::high, "this report is partial", {}, "merge"}};
  EXPECT_THAT(judge(report).text, StartsWith("The run was cut off, so this is a part of it. "));
  EXPECT_FALSE(judge(report).complete);
}

TEST(JobVerdict, WhereNothingCanBeJudgedSaysWhy) {
  JobReport report = job(8, 8);
  report.unjudged = 6;
  EXPECT_THAT(judge(report).text, StartsWith("Lateness cannot be judged: for 6 of 10 matched collectives"));
  report = job(2, 2);
  report.instances = 0;
  EXPECT_THAT(judge(report).text, StartsWith("No communication between the trace ranks was recorded"));
  report.ranks[1].budget.communication_ns = 1;
  EXPECT_THAT(judge(report).text, HasSubstr("no collective was matched across trace ranks"));
  report = job(1, 1);
  report.instances = 0;
  EXPECT_THAT(judge(report).text, HasSubstr("there is only one trace rank"));
  EXPECT_THAT(judge(JobReport{}).text, StartsWith("Nothing could be analysed"));
}

}  // namespace
}  // namespace nsys_explain::analysis
