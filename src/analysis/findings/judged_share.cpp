#include "analysis/findings/judged_share.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "analysis/findings/finding_sizes.hpp"

namespace nsys_explain::analysis {
namespace {

/// Arrivals that are in an instance, and those that all instances would have with all their members.
struct ArrivalShare {
  std::int64_t matched = 0, all = 0;
};

ArrivalShare count_arrivals(const JobReport& report) {
  ArrivalShare count;
  for (const CommunicatorSummary& one : report.communicators) {
    const auto seen = static_cast<std::int64_t>(one.trace_ranks.size());
    const std::int64_t size = std::max<std::int64_t>(one.size, seen);
    // Of a partial instance at least one member lacks its arrival.
    count.matched += one.complete * seen + one.partial * std::min(seen, size - 1);
    count.all += one.instances * size;
  }
  count.all += report.unmatched_arrivals + report.withheld_arrivals;
  return count;
}

}  // namespace

std::optional<JudgedShare> judge_share(const JobReport& report) {
  if (report.ranks.size() < 2) return std::nullopt;
  if (report.instances == 0) return JudgedShare{0, "no collective was matched across ranks"};
  Nanoseconds window_ns = 0, opaque_ns = 0;
  for (const RankSummary& rank : report.ranks) {
    window_ns += rank.budget.window_ns;
    opaque_ns += rank.budget.opaque_graph_ns;
  }
  const ArrivalShare arrivals = count_arrivals(report);
  const double visible = 1 - share(opaque_ns, window_ns);
  const double matched = arrivals.all > 0 ? share(arrivals.matched, arrivals.all) : 1;
  const double comparable = 1 - share(report.unjudged, report.instances);
  JudgedShare judged{visible * matched * comparable, ""};
  const double least = std::min({visible, matched, comparable});
  if (least == 1) return judged;
  if (least == visible) {
    judged.lacks =
        fmt::format("{:.0f}% of GPU time lies inside CUDA graphs recorded as one interval", 100 * (1 - visible));
  } else if (least == matched) {
    judged.lacks = fmt::format("{} of {} arrivals of members at collectives are not recorded or not matched",
                               arrivals.all - arrivals.matched, arrivals.all);
  } else {
    judged.lacks =
        fmt::format("for {} of {} matched collectives the clocks cannot be compared or the times are impossible",
                    report.unjudged, report.instances);
  }
  return judged;
}

}  // namespace nsys_explain::analysis
