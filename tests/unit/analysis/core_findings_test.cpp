#include "analysis/questions/question.hpp"

#include <gmock/gmock.h>

#include "model/schema/host.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {
namespace questions {
Question thread_cores();
}
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class Declaration>
Table joined(const Declaration& declaration) {
  TableSchema schema = declaration.table_schema();
  schema.columns.insert(schema.columns.begin(), {"trace_rank", ColumnKind::integer, "", ""});
  return make_table(std::move(schema));
}

/// Four trace ranks on two hosts; of each a launching thread on this core for this part of its time.
JobReport on_cores(const std::vector<std::pair<std::int64_t, double>>& cores, std::string_view source = "scheduler") {
  JobReport report;
  Table table = joined(schema::thread_cores);
  RowWriter row(table);
  std::int32_t rank = 0;
  for (const auto& [core, percent] : cores) {
    TraceRankIdentity& identity = report.trace_ranks.emplace_back();
    identity.trace_rank = rank;
    identity.host = rank < 2 ? "a" : "b";
    row << std::int64_t{rank} << std::int64_t{100 + rank} << std::int64_t{1} << source << std::int64_t{3} << core
        << percent << std::int64_t{1'000'000} << std::int64_t{2} << std::int64_t{7} << std::int64_t{1'500'000};
    ++rank;
  }
  report.tables.push_back(std::move(table));
  return report;
}

std::vector<Finding> core_findings(const JobReport& report) {
  std::vector<Finding> findings;
  questions::thread_cores().find(report, findings);
  return findings;
}

TEST(CoreFindings, RanksOfOneHostOnOneCore) {
  const auto findings = core_findings(on_cores({{4, 100}, {4, 95}, {4, 99}, {5, 99}}));
  ASSERT_EQ(findings.size(), 1);
  EXPECT_EQ(findings[0].id, "shared-core");
  EXPECT_THAT(findings[0].trace_ranks, ElementsAre(0, 1)) << "core 4 of the other host is another one";
  EXPECT_EQ(findings[0].evidence[1],
            "core 4 of a: thread 101 of rank 1 for 95% of its time, sent away 7 times for 1.500 ms in all");
  EXPECT_THAT(findings[0].recommendation, HasSubstr("--bind-to core"));
}

TEST(CoreFindings, SeparateCoresAreNoFinding) {
  EXPECT_THAT(core_findings(on_cores({{4, 100}, {5, 100}, {4, 100}, {5, 100}})), IsEmpty());
  EXPECT_THAT(core_findings(on_cores({{4, 80}, {4, 80}})), IsEmpty()) << "each is elsewhere often enough";
  EXPECT_THAT(core_findings(on_cores({{4, 100}, {4, 100}, {5, 31}}, "samples")), IsEmpty()) << "they may be few";
}

TEST(CoreFindings, ThreadsThatStayOnNoCore) {
  const auto findings = core_findings(on_cores({{4, 100}, {5, 31}}));
  ASSERT_EQ(findings.size(), 1);
  EXPECT_EQ(findings[0].id, "unbound-host");
  EXPECT_EQ(findings[0].severity, FindingSeverity::info);
  EXPECT_THAT(findings[0].trace_ranks, ElementsAre(1));
  EXPECT_EQ(
      findings[0].evidence[0],
      "thread 101 of rank 1: on 3 cores, at most 31% of its time on one, moved 2 times, sent away 7 times for 1.500 ms in all");
  EXPECT_THAT(findings[0].recommendation, HasSubstr("srun --cpu-bind=cores"));
}

}  // namespace
}  // namespace nsys_explain::analysis
