#include "report/comparison_text.hpp"

#include <gtest/gtest.h>

namespace nsys_explain::report {
namespace {

/// Two runs of one window each: 100 ns of kernels before, 160 ns now.
Comparison two_runs() {
  Comparison comparison;
  comparison.runs.resize(2);
  comparison.runs[0].kernels = {{"<gone>", 10}, {"gemm", 60}, {"softmax", 30}};
  comparison.runs[1].kernels = {{"gemm", 120}, {"softmax", 30}, {"new", 10}};
  comparison.runs[0].rank_means_ns = {{"window_ns", 200}, {"idle_ns", 50}};
  comparison.runs[1].rank_means_ns = {{"window_ns", 250}, {"idle_ns", 25}};
  comparison.runs[0].budget = {{"compute", 100}, {"arrival skew", 50}};
  comparison.runs[1].budget = {{"arrival skew", 125}, {"compute", 100}};
  comparison.runs[1].frameworks = {"PyTorch"};
  return comparison;
}

/// 120 of 160 ns are 75%, 150 are 93.75%: one kernel reaches 50%, two reach 80% and 90%, three 95%, all four rows 100%.
TEST(KernelWaterfall, BarsAddUpUntilTheShareThatIsChosen) {
  const std::string page = kernel_waterfall(two_runs());
  for (const char* told :
       {"at-50\">1 of 4 kernels hold 75.0%", "at-80\">2 of 4 kernels hold 93.8%", "at-90\">2 of 4 kernels hold 93.8%",
        "at-95\">3 of 4 kernels hold 100.0%", "at-100\">4 of 4 kernels hold 100.0%",
        "class=\"kernel over-50\"><td>softmax</td>", "class=\"kernel over-50 over-80 over-90\"><td>new</td>",
        "class=\"kernel over-50 over-80 over-90 over-95\"><td>&lt;gone&gt;</td>",
        // Each begins where the one above ends: 120 of 170 ns, as the bar of what is gone ends there.
        "margin-left:70.588%;width:17.647%", "<td>+100.00%</td><td>75.0%</td>", "<td>new</td><td>100.0%</td>",
        "<td>gone</td><td>100.0%</td>"})
    EXPECT_NE(page.find(told), std::string::npos) << told << page;
  Comparison different = two_runs();
  different.side_by_side = true;
  EXPECT_EQ(kernel_waterfall(different), "");
  EXPECT_EQ(page.find("<script"), std::string::npos);
}

TEST(KernelWaterfall, KeyFiguresAreDividedAndCompared) {
  const ComparisonSection table = key_figures_section(two_runs());
  const std::vector<std::vector<std::string>> expected = {{"GPU time", "150 ns", "225 ns", "+50.00%"},
                                                          {"CPU time (no GPU work)", "50 ns", "25 ns", "-50.00%"},
                                                          {"limited by", "compute (50.0%)", "arrival skew (50.0%)", ""},
                                                          {"frameworks seen", "none", "PyTorch", "differs"}};
  ASSERT_EQ(table.rows.size(), expected.size());
  for (std::size_t r = 0; r < expected.size(); ++r) EXPECT_EQ(table.rows[r], expected[r]);
}

/// The roof rises to its ridge at a ratio of 1: there both peaks are reached at once.
TEST(KernelRooflines, HoldBothRunsUnderTheRoof) {
  Comparison comparison = two_runs();
  EXPECT_EQ(kernel_rooflines(comparison), "");
  comparison.runs[0].kernel_uses = {{"<gemm>", 72, 18, "tensor cores"}};
  comparison.runs[1].kernel_uses = {{"<gemm>", 20, 80, "tensor cores"}, {"norm", 1, 10, "instruction issue"}};
  const std::string page = kernel_rooflines(comparison);
  for (
      const char* told :
      {"<tr><td>&lt;gemm&gt;</td><td>20%, tensor cores</td><td>80%</td><td>memory</td><td>72%, tensor cores</td><td>18%</td><td>compute</td></tr>",
       "<tr><td>norm</td><td>1%, instruction issue</td><td>10%</td><td>memory</td><td>-</td><td>-</td><td>-</td></tr>",
       // From 10^-1 to 10^1 over 594 pixels from 46 on: the ridge in their middle, where the roof is reached.
       "343.0,10.0 640.0,10.0", "<circle class=\"now\" cx=\"46.0\"", "<title>&lt;gemm&gt;</title>"})
    EXPECT_NE(page.find(told), std::string::npos) << told << page;
}

}  // namespace
}  // namespace nsys_explain::report
