#include "analysis/findings/late_without_cost_findings.hpp"
#include "model/p_value_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace nsys_explain::analysis {
namespace {

std::string ranks_text(const LateWithoutCost& late) {
  constexpr std::size_t most = 4;
  const bool several = late.trace_ranks.size() > 1;
  if (late.trace_ranks.size() > most)
    return fmt::format("{} ranks from {} on", late.trace_ranks.size(), late.trace_ranks.front());
  return fmt::format("rank{} {}", several ? "s" : "", fmt::join(late.trace_ranks, ", "));
}

}  // namespace

std::string describe_late_without_cost(const JobReport& report) {
  if (report.late_without_cost.empty()) return "";
  const LateWithoutCost& most = report.late_without_cost.front();
  return fmt::format("{} take{} {:.1f}% of the time longer than {} peers", ranks_text(most),
                     most.trace_ranks.size() > 1 ? "" : "s", 100 * most.longer_share,
                     most.trace_ranks.size() > 1 ? "their" : "its");
}

void add_late_without_cost(const JobReport& report, std::vector<Finding>& findings) {
  if (report.late_without_cost.empty()) return;
  Finding finding;
  finding.id = "late-without-cost";
  finding.severity = FindingSeverity::low;
  finding.title = describe_late_without_cost(report) + ", and fixing that saves no more than steps vary by";
  for (const LateWithoutCost& late : report.late_without_cost)
    finding.evidence.push_back(fmt::format("{}: {:.1f}% of the time longer; {}", ranks_text(late),
                                           100 * late.longer_share, p_value_equation(late.p_value)));
  finding.evidence.push_back(fmt::format("rows of store.h5: steps where trace_rank = {}",
                                         report.late_without_cost.front().trace_ranks.front()));
  finding.recommendation =
      "see whether others wait for it in a way that the replay does not know, such as collectives that are launched ahead: compare the length of a step with one of a run without it";
  finding.trace_ranks = report.late_without_cost.front().trace_ranks;
  findings.push_back(std::move(finding));
}

}  // namespace nsys_explain::analysis
