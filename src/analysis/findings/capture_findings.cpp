#include "analysis/findings/capture_findings.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "analysis/findings/finding_sizes.hpp"
#include "analysis/findings/late_parts.hpp"
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
  const auto most = std::max_element(by_name.begin(), by_name.end(), [](const auto& a, const auto& b) {
    return a.second.total_ns < b.second.total_ns;
  });
  if (most == by_name.end()) return std::nullopt;
  most->second.name = most->first;
  most->second.share = share(most->second.total_ns, windows_of(report).ranks_ns);
  return most->second;
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
  findings.insert(
      findings.begin(),
      {.id = "short-capture",
       .severity = FindingSeverity::medium,
       .title = fmt::format("the capture holds {} of GPU work in {}: it shows how the program starts, not how it runs",
                            duration_text(busy_ns(busiest)), duration_text(busiest.window_ns)),
       .evidence = {"rows: ranks (window_ns, idle_ns)"},
       .recommendation =
           "capture a later and longer part: several steps after warm-up (nsys profile --delay, or --capture-range=cudaProfilerApi)"});
}

}  // namespace nsys_explain::analysis
