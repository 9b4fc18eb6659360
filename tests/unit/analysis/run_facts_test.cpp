#include "analysis/tables/tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/questions/question.hpp"
#include "made_trace.hpp"

namespace nsys_explain::analysis {
namespace questions {
Question run_facts();
}
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MadeTrace;

TEST(RunFacts, MetadataThenFrameworksByWhatRan) {
  MadeTrace made;
  made.trace.facts = {{"driver", "580.95.05"}};
  made.device().gpu_facts = {{"gpu", "NVIDIA H100 80GB HBM3"}};
  made.kernel(0, 10, "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)");
  made.kernel(10, 20, "void vllm::reshape_and_cache_flash_kernel<float>(float const*)");
  made.kernel(20, 30, "void my_flash::kernel()");  // not a word of its own
  made.range(0, 30, "XlaModule", 1, "TSL");
  const Table table = run_facts_table(made.events());
  EXPECT_THAT(column<std::string>(table, "fact"), ElementsAre("driver", "gpu", "framework"));
  EXPECT_THAT(column<std::string>(table, "value"),
              ElementsAre("580.95.05", "NVIDIA H100 80GB HBM3", "PyTorch, vLLM, XLA (JAX, TensorFlow)"));
}

TEST(RunFacts, ATraceThatTellsNothingHasNoRow) {
  MadeTrace made;
  made.kernel(0, 10, "saxpy");
  EXPECT_EQ(run_facts_table(made.events()).row_count(), 0U);
}

/// The joined table of trace ranks.
std::vector<Table> joined(const std::vector<std::tuple<int, const char*, const char*>>& rows) {
  Table table = make_table({"run_facts",
                            "",
                            {{"trace_rank", ColumnKind::integer, "", ""},
                             {"fact", ColumnKind::text, "", ""},
                             {"value", ColumnKind::text, "", ""}}});
  RowWriter row(table);
  for (const auto& [rank, fact, value] : rows) row << std::int64_t{rank} << fact << value;
  return {table};
}

std::vector<Finding> findings_of(const std::vector<Table>& tables) {
  JobReport report;
  report.run_facts = summarise_run_facts(tables);
  std::vector<Finding> findings;
  questions::run_facts().find(report, findings);
  return findings;
}

TEST(RunFacts, DifferencesBetweenRanksAreFindings) {
  const auto tables = joined({{0, "driver", "580.95.05"},
                              {0, "gpu", "H100"},
                              {0, "framework", "PyTorch"},
                              {1, "driver", "535.129.03"},
                              {1, "gpu", "H100"},
                              {2, "driver", "580.95.05"},
                              {2, "gpu", "A100"}});
  const std::vector<RunFactSummary> facts = summarise_run_facts(tables);
  ASSERT_EQ(facts.size(), 3U);
  EXPECT_EQ(facts[0].name, "driver");
  ASSERT_EQ(facts[0].values.size(), 2U);
  EXPECT_EQ(facts[0].values[0].value, "580.95.05");
  EXPECT_THAT(facts[0].values[0].trace_ranks, ElementsAre(0, 2));
  EXPECT_THAT(facts[0].values[1].trace_ranks, ElementsAre(1));
  const std::vector<Finding> findings = findings_of(tables);
  ASSERT_EQ(findings.size(), 2U);  // a framework that only one rank shows is no difference
  EXPECT_EQ(findings[0].id, "mixed-gpus");
  EXPECT_EQ(findings[0].severity, FindingSeverity::medium);
  EXPECT_THAT(findings[0].evidence.front(), HasSubstr("H100 (2 ranks), A100 (rank 2)"));
  EXPECT_EQ(findings[1].id, "mixed-software");
  EXPECT_THAT(findings[1].evidence.front(), HasSubstr("535.129.03 (rank 1)"));
}

TEST(RunFacts, EqualRanksAndMissingFactsAreNoFinding) {
  EXPECT_TRUE(findings_of(joined({{0, "driver", "1"}, {0, "gpu", "H100"}, {1, "gpu", "H100"}})).empty());
  EXPECT_TRUE(findings_of({}).empty());
}

TEST(RunFacts, OtherCapturesAreSaid) {
  const auto findings = findings_of(joined({{0, "cuda_graphs", "Graph"}, {1, "cuda_graphs", "Node"}}));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "mixed-captures");
}

}  // namespace
}  // namespace nsys_explain::analysis
