#include "analysis/questions/question.hpp"

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {
namespace {

// Below this share a sum over what could be attributed stands for something else than the whole.
constexpr double enough = 0.70;

/// Trace ranks whose share is below `enough`, and the worst of them.
struct LowShares {
  std::int64_t count = 0;
  std::int64_t worst_rank = -1;
  double worst = 1;
  void see(std::int64_t rank, double value) {
    if (value >= enough) return;
    ++count;
    if (value < worst) {
      worst = value;
      worst_rank = rank;
    }
  }
};

void find_low_coverage(const JobReport& report, std::vector<Finding>& findings) {
  const Table* const table = find_table(report.tables, schema::nvtx_coverage);
  if (table == nullptr) return;
  const Table& coverage = *table;
  const auto& rank = column(coverage, schema::trace_rank);
  const auto& ranges = column(coverage, schema::nvtx_coverage.ranges);
  const auto& kernel_ns = column(coverage, schema::nvtx_coverage.kernel_ns);
  const auto& launched_ns = column(coverage, schema::nvtx_coverage.launched_ns);
  const auto& covered_ns = column(coverage, schema::nvtx_coverage.covered_ns);
  LowShares launched, covered;
  for (std::size_t i = 0; i < rank.size(); ++i) {
    if (kernel_ns[i] == 0) continue;
    launched.see(rank[i], share(launched_ns[i], kernel_ns[i]));
    // A program without ranges attributes nothing, and nothing wrongly.
    if (ranges[i] > 0) covered.see(rank[i], share(covered_ns[i], kernel_ns[i]));
  }
  if (launched.count > 0) {
    findings.push_back(
        {.id = "weak-launch-attribution",
         .severity = FindingSeverity::medium,
         .title = fmt::format("on {} of {} ranks less than 70% of the kernel time has its launching call in the export",
                              launched.count, rank.size()),
         .evidence =
             {fmt::format("worst is rank {} with {:.1f}%; table nvtx_coverage has all", launched.worst_rank,
                          100 * launched.worst),
              "what rests on launches (launch latency, NVTX ranges and phases of kernels, causes on the host) covers only this part"},
         .recommendation =
             "capture with -t cuda,nvtx from before the work is launched, and export without --times; kernels of a CUDA graph have the call that launches the graph"});
  }
  if (covered.count > 0) {
    findings.push_back(
        {.id = "low-nvtx-coverage",
         .severity = FindingSeverity::low,
         .title =
             fmt::format("on {} of {} ranks less than 70% of the kernel time lies inside NVTX ranges of the program",
                         covered.count, rank.size()),
         .evidence =
             {fmt::format("worst is rank {} with {:.1f}%; table nvtx_coverage has all", covered.worst_rank,
                          100 * covered.worst),
              "sums by NVTX range leave out the rest; kernels launched by other threads than the range's (PyTorch's autograd) are in none, but phases take them by time"},
         .recommendation =
             "annotate the main phases (step, forward, backward, optimizer; prefill, decode), in every thread that launches work"});
  }
}

}  // namespace

/// How far the traces tell where GPU work comes from.
Question nvtx_coverage() {
  return {.shown = {.table = schema::nvtx_coverage.table_name(),
                    .findings = {"weak-launch-attribution", "low-nvtx-coverage"},
                    .view = "coverage"},
          .find = find_low_coverage};
}

}  // namespace nsys_explain::analysis::questions
