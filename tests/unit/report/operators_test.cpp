#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "nsys_explain/model/regex.hpp"
#include "report/report.hpp"

/// What operators read: metrics and the line for job logs. Values worked out by hand.
namespace nsys_explain::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Two ranks of 1 s each; they waited 100 ms and 300 ms of these 2 s.
JobReport small_report() {
  JobReport report;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    TraceRankIdentity identity;
    identity.trace_rank = rank;
    identity.host = "node\"0\\1\n";
    identity.key.device_id = 4 + rank;
    report.trace_ranks.push_back(identity);
    RankSummary summary;
    summary.trace_rank = rank;
    summary.budget.window_ns = 1'000'000'000;
    summary.wait_ns = rank == 0 ? 100'000'000 : 300'000'000;
    report.ranks.push_back(summary);
    report.inputs.push_back({"trace", rank == 0 ? InputStatus::ok : InputStatus::failed, ""});
  }
  Straggler straggler;
  straggler.trace_rank = 1;
  straggler.cause = Cause::sync_stall;
  straggler.cost_share = 0.125;
  report.stragglers.push_back(straggler);
  report.clock.residual.held_out_p50_ns = 200;
  report.clock.residual.held_out_p90_ns = 1500;
  report.run.tool_version = "1.2.3";
  Table bandwidth = make_table({"bandwidth",
                                "",
                                {{"operation", ColumnKind::text, "", ""},
                                 {"from_bytes", ColumnKind::integer, "", ""},
                                 {"members", ColumnKind::integer, "", ""},
                                 {"nodes", ColumnKind::integer, "", ""},
                                 {"bytes", ColumnKind::integer, "", ""},
                                 {"transfer_ns", ColumnKind::integer, "", ""}}});
  RowWriter row(bandwidth);
  const auto add = [&](const char* operation, std::int64_t bytes, std::int64_t transfer_ns) {
    row << operation << std::int64_t{1024} << std::int64_t{4} << std::int64_t{2} << bytes << transfer_ns;
  };
  add("all_reduce", 3000, 1000);  // of two communicators: 4000 bytes in 2 us is 2e9 bytes/s,
  add("all_reduce", 1000, 1000);  // times 2 (4 - 1) / 4 on the bus
  add("broadcast", 500, 1000);
  report.tables.push_back(bandwidth);
  return report;
}

TEST(Prometheus, GivesVerdictsWaitShareClockAndBandwidths) {
  const std::string text = to_prometheus(small_report(), "out/job \"7\"", 0);
  const std::string results = R"(results="out/job \"7\"")";
  EXPECT_THAT(text, HasSubstr("nsys_explain_wait_ratio{" + results + "} 0.2\n"));
  EXPECT_THAT(text, HasSubstr("nsys_explain_stragglers{" + results + "} 1\n"));
  EXPECT_THAT(text, HasSubstr("nsys_explain_straggler_cost_ratio{" + results +
                              R"(,trace_rank="1",level="gpu",place="",host="node\"0\\1\n",gpu="5",gpu_uuid="",)"
                              R"(pattern="persistent",cause="sync_stall"} 0.125)"));
  EXPECT_THAT(text, HasSubstr("nsys_explain_clock_residual_seconds{" + results + ",quantile=\"0.9\"} 1.5e-06\n"));
  EXPECT_THAT(text, Not(HasSubstr("quantile=\"1\"")));
  EXPECT_THAT(text,
              HasSubstr(results + R"(,operation="all_reduce",from_bytes="1024",members="4",nodes="2"} 3000000000)"));
  EXPECT_THAT(text,
              HasSubstr(results + R"(,operation="broadcast",from_bytes="1024",members="4",nodes="2"} 500000000)"));
  EXPECT_THAT(text, HasSubstr("nsys_explain_inputs{" + results + ",status=\"failed\"} 1\n"));
}

TEST(Prometheus, IsWellFormed) {
  // Every line a comment or a sample; a family's comments stand before its samples, once; no series twice.
  const Regex comment(R"(^# (?:HELP|TYPE) (nsys_explain_[a-z_]+) .+$)");
  const Regex sample(R"re(^(nsys_explain_[a-z_]+)\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)+\} [-+.e0-9]+$)re");
  std::istringstream stream(to_prometheus(small_report(), "out", 0));
  std::set<std::string> families, series;
  std::string family;
  int lines = 0;
  for (std::string line; std::getline(stream, line); ++lines) {
    if (const auto described = comment.find(line)) {
      family = described->first_group.value();
      EXPECT_TRUE(families.insert(line.substr(0, line.find(family)) + family).second) << line;
    } else {
      const auto sampled = sample.find(line);
      ASSERT_TRUE(sampled) << line;
      EXPECT_EQ(sampled->first_group, family);
      EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
    }
  }
  EXPECT_GT(lines, 20);
}

/// Without a trace rank nobody knows whether somebody waits.
TEST(Prometheus, OfNoTraceRankSaysNothingOfWaiting) {
  const std::string text = to_prometheus({}, "out", 0);
  EXPECT_THAT(text, HasSubstr("nsys_explain_trace_ranks{results=\"out\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("nsys_explain_wait_ratio{")));
  EXPECT_THAT(text, Not(HasSubstr("nsys_explain_stragglers{")));
}

TEST(Prometheus, OfATraceRankWithoutTimeHasNoDivisionByZero) {
  JobReport report;
  report.trace_ranks.resize(1);
  report.ranks.resize(1);
  const std::string text = to_prometheus(report, "out", 0);
  EXPECT_THAT(text, HasSubstr("nsys_explain_wait_ratio{results=\"out\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("nsys_explain_stragglers{results=\"out\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

TEST(Prometheus, TellsWhenAndHowTheRunEnded) {
  JobReport report;
  report.run.date_utc = "2026-01-02T03:04:05Z";  // date -u -d 2026-01-02T03:04:05Z +%s
  const std::string text = to_prometheus(report, "out", 3);
  EXPECT_THAT(text, HasSubstr("nsys_explain_exit_code{results=\"out\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("nsys_explain_run_timestamp_seconds{results=\"out\"} 1767323045\n"));
}

TEST(Prometheus, TellsTheVerdictWhatItSavesAndHowMuchWasJudged) {
  JobReport report;
  EXPECT_THAT(to_prometheus(report, "out", 3), Not(HasSubstr("saving_ratio{")));
  report.verdict.text = "rank 5 is slow";
  report.verdict.finding = "straggler";
  report.verdict.severity = FindingSeverity::high;
  report.verdict.judged_share = 0.75;
  WhatIf fixed;
  fixed.saved_share = 0.25;
  fixed.low_share = 0.125;
  fixed.step_ns_before = 40'000'000;
  fixed.step_ns_after = 30'000'000;
  report.verdict.mended = fixed;
  const std::string text = to_prometheus(report, "out", 0);
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(nsys_explain_verdict{results="out",finding="straggler",severity="high",complete="true",text="rank 5 is slow"} 1)"));
  EXPECT_THAT(text, HasSubstr("nsys_explain_judged_ratio{results=\"out\"} 0.75\n"));
  EXPECT_THAT(text, HasSubstr("nsys_explain_saving_ratio{results=\"out\",bound=\"none\"} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("nsys_explain_saving_ratio{results=\"out\",bound=\"low\"} 0.125\n"));
  EXPECT_THAT(text, Not(HasSubstr("bound=\"high\"")));
  EXPECT_THAT(text, HasSubstr("nsys_explain_step_seconds{results=\"out\",as=\"fixed\"} 0.03\n"));
  const auto line = nlohmann::json::parse(to_summary_line(report, "out", 0));
  EXPECT_EQ(line["finding"], "straggler");
  EXPECT_EQ(line["judged_share"], 0.75);
  EXPECT_EQ(line["saved_share"], 0.25);
  EXPECT_EQ(line["low_share"], 0.125);
  EXPECT_TRUE(line["high_share"].is_null());
}

TEST(SummaryLine, IsOneLineOfJson) {
  const std::string line = to_summary_line(small_report(), "out", 4);
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["exit_code"], 4);
  EXPECT_EQ(json["inputs"]["failed"], 1);
  EXPECT_EQ(json["wait_share"], 0.2);
  EXPECT_EQ(json["stragglers"][0]["trace_rank"], 1);
  EXPECT_EQ(json["stragglers"][0]["host"], "node\"0\\1\n");
  EXPECT_EQ(json["stragglers"][0]["cause"], "sync_stall");
  EXPECT_EQ(json["clock_residual_p90_ns"], 1500);
  EXPECT_TRUE(nlohmann::json::parse(to_summary_line({}, "out", 3))["wait_share"].is_null());
}

}  // namespace
}  // namespace nsys_explain::report
