#include "pipeline/read/ranks_without_ranges.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/schema/host.hpp"

namespace nsys_explain::pipeline {
namespace {

using testing::HasSubstr;

/// A trace rank with 10 kernels of 5 ns.
struct Row {
  std::int64_t ranges = 0, launched = 0, covered = 0;
};

/// Process 100 + r and file "r" for trace rank r.
struct MadeJob {
  explicit MadeJob(const std::vector<Row>& rows) {
    TableSchema schema = schema::nvtx_coverage.table_schema();
    schema.columns.insert(schema.columns.begin(), {"trace_rank", ColumnKind::integer, "", ""});
    tables.push_back(make_table(schema));
    RowWriter writer(tables[0]);
    for (std::int32_t r = 0; const Row& row : rows) {
      writer << std::int64_t{r} << row.ranges << std::int64_t{10} << std::int64_t{50} << row.launched
             << 5 * row.launched << row.covered << 5 * row.covered;
      TraceRankIdentity identity;
      identity.trace_rank = r;
      identity.process_id = 100 + r;
      identity.key.path = std::to_string(r);
      job.trace_ranks.push_back(identity);
      job.numbers.push_back(r++);
    }
  }
  std::optional<Warning> warning() const {
    const std::vector<Warning> all = ranks_without_ranges(tables, job);
    return all.empty() ? std::nullopt : std::optional(all.front());
  }

  std::vector<Table> tables;
  JobRanks job;
};

TEST(RanksWithoutRanges, AreNamedWhereOthersHaveSome) {
  const auto warning = MadeJob({{3, 10, 9}, {0, 10, 0}, {4, 10, 10}, {0, 9, 0}}).warning();
  ASSERT_TRUE(warning);
  EXPECT_EQ(warning->severity, Severity::info);
  EXPECT_EQ(warning->count, 2);
  EXPECT_THAT(
      warning->message,
      HasSubstr(
          "rank 1 (process 101), rank 3 (process 103) launched kernels and recorded no NVTX range but NCCL's, while kernels of 2 other ranks lie in ranges"));
}

TEST(RanksWithoutRanges, AreNoneWhereNobodyHasRangesOrEverybody) {
  EXPECT_FALSE(MadeJob({{0, 10, 0}, {0, 10, 0}}).warning());
  EXPECT_FALSE(MadeJob({{3, 10, 2}, {3, 10, 1}}).warning());
  EXPECT_FALSE(MadeJob({{3, 10, 0}, {0, 10, 0}}).warning()) << "the others' ranges hold no kernel either";
}

TEST(RanksWithoutRanges, LeaveOutWhatIsToldElsewhere) {
  EXPECT_FALSE(MadeJob({{3, 10, 2}, {3, 10, 0}}).warning()) << "low-nvtx-coverage";
  EXPECT_FALSE(MadeJob({{3, 10, 2}, {0, 0, 0}}).warning()) << "weak-launch-attribution";
  MadeJob degraded({{3, 10, 2}, {0, 10, 0}});
  degraded.job.without_ranges = {"1"};
  EXPECT_FALSE(degraded.warning());
}

TEST(RanksWithoutRanges, BeyondEightAreCounted) {
  std::vector<Row> rows(12, {0, 10, 0});
  rows[0] = {3, 10, 2};
  const auto warning = MadeJob(rows).warning();
  ASSERT_TRUE(warning);
  EXPECT_EQ(warning->count, 11);
  EXPECT_THAT(
      warning->message,
      HasSubstr(
          "rank 8 (process 108) and 3 more launched kernels and recorded no NVTX range but NCCL's, while kernels of 1 other rank lie in"));
}

}  // namespace
}  // namespace nsys_explain::pipeline
