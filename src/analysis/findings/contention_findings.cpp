#include "analysis/findings/contention_findings.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "analysis/findings/finding_sizes.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {

std::optional<Finding> find_contention(const JobReport& report) {
  constexpr double least_share = 0.01;
  const Table* const table = find_table(report.tables, schema::contended_kernels);
  if (table == nullptr) return std::nullopt;
  const auto& time_beside = column(*table, schema::contended_kernels.time_beside_ns);
  const auto& lost = column(*table, schema::contended_kernels.lost_ns);
  Nanoseconds beside_ns = 0, lost_ns = 0, window_ns = 0;
  for (const RankSummary& rank : report.ranks) window_ns += rank.budget.window_ns;
  for (std::size_t i = 0; i < lost.size(); ++i) {
    beside_ns += time_beside[i];
    lost_ns += lost[i];
  }
  const double part = share(lost_ns, window_ns);
  if (part < least_share) return std::nullopt;
  Finding finding;
  finding.id = "contention";
  finding.severity = severity_of(part);
  finding.title = fmt::format("compute beside collectives takes {:.2f} times as long as alone: {:.1f}% of GPU time",
                              static_cast<double>(beside_ns) / static_cast<double>(beside_ns - lost_ns), 100 * part);
  const auto most = static_cast<std::size_t>(std::max_element(lost.begin(), lost.end()) - lost.begin());
  finding.evidence.push_back(fmt::format(
      "{}: median {:.3f} ms alone ({} kernels), {:.3f} ms beside a collective ({} kernels of equal grid and block)",
      column(*table, schema::contended_kernels.name)[most],
      1e3 * seconds(column(*table, schema::contended_kernels.alone_ns)[most]),
      column(*table, schema::contended_kernels.alone)[most],
      1e3 * seconds(column(*table, schema::contended_kernels.beside_ns)[most]),
      column(*table, schema::contended_kernels.beside)[most]));
  finding.evidence.push_back(fmt::format("lost: {} of {} beside collectives (table contended_kernels)",
                                         gpu_time(lost_ns), gpu_time(beside_ns)));
  finding.recommendation =
      "let collectives hold fewer multiprocessors: NCCL_MAX_CTAS or NCCL_MAX_NCHANNELS, or NVLink SHARP and copy engines where the machine has them; look at late ranks first, because a collective that waits for one slows compute all that time; overlapping is worth it as long as a collective would take longer than what is lost";
  finding.cost_ns = lost_ns;
  return finding;
}

}  // namespace nsys_explain::analysis
