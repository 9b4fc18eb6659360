#include <gtest/gtest.h>

#include "analysis/questions/question.hpp"
#include "unit/analysis/rank_fixture.hpp"

// The worked example of CONTRIBUTING.md, built from tests/examples.
namespace nsys_explain::analysis {

namespace questions {
Question short_kernels();
}

namespace {

using testing::integers;
using testing::Integers;
using testing::OneRank;

TEST(ShortKernels, CountsThoseBelowFiveMicroseconds) {
  OneRank rank;
  rank.kernel("a", 0, 4'999);
  rank.kernel("b", 10'000, 15'000);
  const Table table = questions::short_kernels().rows(rank.events());
  EXPECT_EQ(table.schema.name, questions::short_kernels().shown.table);
  EXPECT_EQ(integers(table, "kernels"), Integers{1});
  EXPECT_EQ(integers(table, "total_ns"), Integers{4'999});
}

/// Of a job of one trace rank whose window is `window_ns` long.
std::vector<Finding> found(OneRank& rank, Nanoseconds window_ns) {
  JobReport report;
  report.ranks.emplace_back().budget.window_ns = window_ns;
  report.tables.push_back(questions::short_kernels().rows(rank.events()));
  std::vector<Finding> findings;
  questions::short_kernels().find(report, findings);
  return findings;
}

TEST(ShortKernels, AreToldFromATwentiethOfTheTimeOn) {
  OneRank rank;
  for (int k = 0; k < 10; ++k) rank.kernel("a", 10'000 * k, 10'000 * k + 1'000);
  const std::vector<Finding> findings = found(rank, 100'000);  // 10 us of 100 us
  ASSERT_EQ(findings.size(), 1);
  EXPECT_EQ(findings[0].id, "short-kernels");
  EXPECT_EQ(findings[0].severity, FindingSeverity::medium);
  EXPECT_EQ(findings[0].title, "10.0% of GPU time is kernels below 5 us");
  EXPECT_EQ(findings[0].cost_ns, 10'000);
  EXPECT_TRUE(found(rank, 1'000'000).empty());
}

}  // namespace
}  // namespace nsys_explain::analysis
