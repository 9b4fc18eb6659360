#include "analysis/questions/question.hpp"

#include <gmock/gmock.h>

#include "model/schema/gpu.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {
namespace questions {
Question gpu_memory();
}
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Memory in use of one trace rank, a row each second, in MiB.
std::vector<Finding> memory_findings(const std::vector<std::int64_t>& in_use) {
  constexpr std::int64_t mib = 1 << 20;
  TableSchema columns = schema::gpu_memory.table_schema();
  columns.columns.push_front({"trace_rank", ColumnKind::integer, "", ""});
  Table table = make_table(std::move(columns));
  RowWriter row(table);
  for (std::size_t i = 0; i < in_use.size(); ++i)
    row << std::int64_t{3} << static_cast<Nanoseconds>(i) * 1'000'000'000 << std::string_view("Device")
        << in_use[i] * mib << in_use[i] * mib;
  JobReport report;
  report.tables.push_back(std::move(table));
  std::vector<Finding> findings;
  questions::gpu_memory().find(report, findings);
  return findings;
}

TEST(MemoryGrowth, IsToldWhereTheLeastInUseRisesAllTheTime) {
  // Steps use 400 MiB and give them back; 10 MiB more remain every time.
  std::vector<std::int64_t> leak, steady, setup;
  for (std::int64_t second = 0; second < 32; ++second) {
    leak.push_back(second % 2 == 0 ? 500 + 10 * second : 900 + 10 * second);
    steady.push_back(second % 2 == 0 ? 500 : 900);
    setup.push_back(std::min<std::int64_t>(100 * second, 1500));
  }
  const auto findings = memory_findings(leak);
  ASSERT_EQ(findings.size(), 1);
  EXPECT_EQ(findings[0].id, "memory-growth");
  EXPECT_THAT(findings[0].trace_ranks, ElementsAre(3));
  // Eighths of 31 s begin at rows 4, 8, ... 28.
  EXPECT_EQ(findings[0].evidence[0], "rank 3: at least 540.0 MiB in use, later 780.0 MiB, in 31.000 s");
  EXPECT_THAT(memory_findings(steady), IsEmpty());
  EXPECT_THAT(memory_findings(setup), IsEmpty()) << "it stops at 1,500";
}

}  // namespace
}  // namespace nsys_explain::analysis
