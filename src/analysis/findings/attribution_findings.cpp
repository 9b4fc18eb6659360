#include "analysis/findings/attribution_findings.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "analysis/causes/attributed_time.hpp"
#include "analysis/findings/finding_sizes.hpp"
#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis {
namespace {

// Below this share a sum over what could be attributed stands for something else than the whole.
constexpr double enough = 0.70;

using Integers = std::vector<std::int64_t>;

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

void add_coverage_findings(const Table& coverage, std::vector<Finding>& findings) {
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
        {"weak-launch-attribution",
         FindingSeverity::medium,
         fmt::format("on {} of {} ranks less than 70% of the kernel time has its launching call in the export",
                     launched.count, rank.size()),
         {fmt::format("worst is rank {} with {:.1f}%; table nvtx_coverage has all", launched.worst_rank,
                      100 * launched.worst),
          "what rests on launches (launch latency, NVTX ranges and phases of kernels, causes on the host) covers only this part"},
         "capture with -t cuda,nvtx from before the work is launched, and export without --times; kernels of a CUDA graph have the call that launches the graph"});
  }
  if (covered.count > 0) {
    findings.push_back(
        {"low-nvtx-coverage",
         FindingSeverity::low,
         fmt::format("on {} of {} ranks less than 70% of the kernel time lies inside NVTX ranges of the program",
                     covered.count, rank.size()),
         {fmt::format("worst is rank {} with {:.1f}%; table nvtx_coverage has all", covered.worst_rank,
                      100 * covered.worst),
          "sums by NVTX range leave out the rest; kernels launched by other threads than the range's (PyTorch's autograd) are in none, but phases take them by time"},
         "annotate the main phases (step, forward, backward, optimizer; prefill, decode), in every thread that launches work"});
  }
}

/// What both sources tell of one trace rank: that with more time below its clock.
struct Throttled {
  std::int64_t rank = -1;
  std::string source;
  std::int64_t spans = 0;
  Nanoseconds total_ns = 0;
  double lowest_mhz = -1;
  bool by_driver = false;
};

/// Most time first.
std::vector<Throttled> throttled_ranks(const Table& throttling) {
  const auto& rank = column(throttling, schema::trace_rank);
  const auto& source = column(throttling, schema::gpu_throttling.source);
  const auto& start = column(throttling, schema::gpu_throttling.start_ns);
  const auto& end = column(throttling, schema::gpu_throttling.end_ns);
  const auto& lowest = column(throttling, schema::gpu_throttling.lowest_sm_clock_mhz);
  const auto& by_driver = column(throttling, schema::gpu_throttling.by_driver);
  std::map<std::pair<std::int64_t, std::string>, Throttled> by_source;
  for (std::size_t i = 0; i < rank.size(); ++i) {
    Throttled& sum = by_source[{rank[i], source[i]}];
    sum.rank = rank[i];
    sum.source = source[i];
    if (lowest[i] >= 0) sum.lowest_mhz = sum.lowest_mhz < 0 ? lowest[i] : std::min(sum.lowest_mhz, lowest[i]);
    ++sum.spans;
    sum.total_ns += end[i] - start[i];
    sum.by_driver = sum.by_driver || by_driver[i] != 0;
  }
  std::vector<Throttled> ranks;
  for (auto& [key, sum] : by_source) {
    if (ranks.empty() || ranks.back().rank != sum.rank) {
      ranks.push_back(std::move(sum));
    } else if (sum.total_ns > ranks.back().total_ns) {
      ranks.back() = std::move(sum);
    }
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const Throttled& a, const Throttled& b) { return a.total_ns > b.total_ns; });
  return ranks;
}

/// True where a GPU was slow for a moment only, as it is whenever it wakes up: what a twentieth of the time at lower
/// clocks costs is within what any run loses.
bool is_brief(const JobReport& report, const Throttled& one) {
  constexpr double worth_telling = 0.05;
  const auto rank = std::find_if(report.ranks.begin(), report.ranks.end(),
                                 [&](const RankSummary& summary) { return summary.trace_rank == one.rank; });
  return rank != report.ranks.end() && share(one.total_ns, rank->budget.window_ns) < worth_telling;
}

/// `told`: of them a finding tells that they are late, with their clocks.
void add_throttling_finding(const JobReport& report, const Table& throttling, const LateRanks& told,
                            std::vector<Finding>& findings) {
  constexpr std::size_t most_named = 8;
  std::vector<Throttled> ranks = throttled_ranks(throttling);
  std::erase_if(ranks, [&](const Throttled& one) { return is_brief(report, one); });
  const auto more = std::erase_if(ranks, [&](const Throttled& one) { return is_among(told, one.rank); });
  if (ranks.empty()) return;
  Finding finding;
  finding.id = "gpu-throttling";
  finding.severity = FindingSeverity::medium;
  finding.title = fmt::format("the {}{} {} ran slower than they can while they were used",
                              ranks.size() == 1 ? "GPU of 1" : fmt::format("GPUs of {}", ranks.size()),
                              more > 0 ? " more" : "", ranks.size() == 1 ? "rank" : "ranks");
  for (std::size_t i = 0; i < std::min(ranks.size(), most_named); ++i) {
    const Throttled& of_rank = ranks[i];
    const std::string lowest =
        of_rank.lowest_mhz >= 0 ? fmt::format(", SM clock down to {:.0f} MHz", of_rank.lowest_mhz) : std::string();
    finding.evidence.push_back(fmt::format("rank {}: {} spans, {:.3f} s{} ({}){}", of_rank.rank, of_rank.spans,
                                           seconds(of_rank.total_ns), lowest, of_rank.source,
                                           of_rank.by_driver ? "; the driver gives a reason" : ""));
  }
  if (ranks.size() > most_named) finding.evidence.push_back("table gpu_throttling has all");
  finding.recommendation =
      "compare power and temperature of these GPUs with their peers (nvidia-smi -q -d POWER,TEMPERATURE,PERFORMANCE), then power caps, cooling and the application clocks";
  findings.push_back(std::move(finding));
}

}  // namespace

void add_attribution_findings(const JobReport& report, std::vector<Finding>& findings) {
  if (const Table* coverage = find_table(report.tables, schema::nvtx_coverage))
    add_coverage_findings(*coverage, findings);
  if (const Table* throttling = find_table(report.tables, schema::gpu_throttling))
    add_throttling_finding(report, *throttling, late_by(report, {Cause::slow_kernel}), findings);
}

}  // namespace nsys_explain::analysis
