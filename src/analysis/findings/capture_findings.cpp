#include "analysis/findings/capture_findings.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "analysis/findings/finding_parts.hpp"
#include "analysis/findings/finding_sizes.hpp"
#include "analysis/findings/missing_findings.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {
namespace {

/// What a GPU did in all; an opaque graph counts as work.
Nanoseconds busy_ns(const Budget& budget) {
  return budget.window_ns - budget.idle_ns;
}

}  // namespace

std::optional<HeaviestKernel> heaviest_kernel(const JobReport& report) {
  const Table* const kernels = find_table(report.tables, schema::kernels);
  if (kernels == nullptr) return std::nullopt;
  std::map<std::string, HeaviestKernel> by_name;
  for (std::size_t row = 0; row < kernels->row_count(); ++row) {
    if (column(*kernels, schema::kernels.communication)[row] != 0) continue;
    HeaviestKernel& kernel = by_name[std::string(column(*kernels, schema::kernels.name)[row])];
    kernel.total_ns += column(*kernels, schema::kernels.durations.total)[row];
    kernel.count += column(*kernels, schema::kernels.durations.count)[row];
  }
  Nanoseconds windows_ns = 0;
  for (const RankSummary& rank : report.ranks) windows_ns += rank.budget.window_ns;
  const auto most = std::max_element(by_name.begin(), by_name.end(), [](const auto& a, const auto& b) {
    return a.second.total_ns < b.second.total_ns;
  });
  if (most == by_name.end()) return std::nullopt;
  most->second.name = most->first;
  most->second.share = share(most->second.total_ns, windows_ns);
  return most->second;
}

void add_dominant_kernel_finding(const JobReport& report, std::vector<Finding>& findings) {
  constexpr double least_share = 0.5;  // of the window: below, other kernels matter as much
  const std::optional<HeaviestKernel> kernel = heaviest_kernel(report);
  if (!kernel || report.ranks.size() != 1 || kernel->share < least_share) return;
  const auto& [name, total_ns, count, part] = *kernel;
  const RankSummary& rank = report.ranks.front();
  // Beside members that nobody recorded, nothing tells what the step waits for: then it is only the largest kernel.
  const bool is_alone = collectives_alone(report) > 0 || report.untraced_processes > 0;
  findings.push_back(
      {"dominant-kernel",
       is_alone ? FindingSeverity::low : FindingSeverity::medium,
       fmt::format("{:.1f}% of GPU time is one kernel: {}", 100 * part, short_kernel_name(name)),
       {fmt::format("{} in {} execution{}, {} each on average", gpu_time(total_ns), count, count == 1 ? "" : "s",
                    duration_text(total_ns / std::max<std::int64_t>(count, 1))),
        fmt::format("rows: kernels where name = '{}'", name)},
       std::string(is_alone ? "once the other ranks are captured" : "make this kernel faster before anything else") +
           ": profile it with Nsight Compute (ncu --set full), and compare it with what the GPU can do (--ncu, --gpu-peaks)",
       total_ns,
       {},
       {rank.trace_rank},
       place_of(report, rank.trace_rank)});
}

void judge_short_capture(const JobReport& report, std::vector<Finding>& findings) {
  // Loading a module or making a context alone takes milliseconds of the host.
  constexpr Nanoseconds least_work_ns = 1'000'000;
  if (report.ranks.empty()) return;
  const Budget& busiest = std::max_element(report.ranks.begin(), report.ranks.end(), [](const auto& a, const auto& b) {
                            return busy_ns(a.budget) < busy_ns(b.budget);
                          })->budget;
  if (busy_ns(busiest) >= least_work_ns) return;
  for (Finding& finding : findings) finding.severity = std::max(finding.severity, FindingSeverity::low);
  Finding finding;
  finding.id = "short-capture";
  finding.severity = FindingSeverity::medium;
  finding.title =
      fmt::format("the capture holds {} of GPU work in {}: it shows how the program starts, not how it runs",
                  duration_text(busy_ns(busiest)), duration_text(busiest.window_ns));
  finding.evidence.emplace_back("rows: ranks (window_ns, idle_ns)");
  finding.recommendation =
      "capture a later and longer part: several steps after warm-up (nsys profile --delay, or --capture-range=cudaProfilerApi)";
  findings.insert(findings.begin(), std::move(finding));
}

}  // namespace nsys_explain::analysis
