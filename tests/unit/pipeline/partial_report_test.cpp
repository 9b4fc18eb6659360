#include "pipeline/read/partial_report.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;

/// Where those before it do not end the run, a tool rank tells by what lies in the output directory.
TEST(EndInTurn, WithoutAReportIsAFailure) {
  std::string pattern = (fs::temp_directory_path() / "partial_report_test.XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  JobSpecification job;
  job.output_directory = pattern;
  std::atomic<bool> has_results = false;
  const auto code = [&](int rank, bool had_report, std::chrono::hours turn = std::chrono::hours(0)) {
    return end_in_turn(job, rank, had_report, has_results, turn);
  };
  for (const int rank : {0, 1, 2}) EXPECT_EQ(code(rank, false), results_not_written) << "nothing had been read";
  std::ofstream(fs::path(pattern) / "report.json") << "{}";
  const std::chrono::hours never{1'000};
  for (const int rank : {1, 2}) EXPECT_EQ(code(rank, false, never), some_inputs_failed) << "nobody waits";
  EXPECT_EQ(code(2, true), results_not_written) << "an older one";
  has_results = true;
  for (const int rank : {1, 2, 7}) {
    for (const bool had_report : {false, true}) EXPECT_EQ(code(rank, had_report, never), results_not_written);
  }
  fs::remove_all(pattern);
}

/// Also where nothing is missing but a second look into the traces.
TEST(AddPartialFinding, AlwaysComesFirst) {
  JobReport report;
  report.inputs.resize(2);
  report.findings.resize(1);
  add_partial_finding(report);
  ASSERT_EQ(report.findings.size(), 2);
  EXPECT_EQ(report.findings.front().id, "partial-report");
  EXPECT_EQ(report.findings.front().title.find("missing: "), std::string::npos);
  report.inputs.front().status = InputStatus::failed;
  add_partial_finding(report);
  EXPECT_NE(report.findings.front().title.find("1 of 2 inputs are missing"), std::string::npos);
}

}  // namespace
}  // namespace nsys_explain::pipeline
