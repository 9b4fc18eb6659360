#include "analysis/findings/late_parts.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/findings/finding_sizes.hpp"

namespace nsys_explain::analysis {

std::string_view LatePart::beside() const {
  return time_ns > 0 ? ", besides that of ranks that are late by it" : "";
}

void LatePart::add_to(std::vector<std::string>& evidence) const {
  if (time_ns > 0)
    evidence.push_back(fmt::format("besides, {} more than is usual on rank{} {}: see the findings about them",
                                   gpu_time(time_ns), ranks.size() == 1 ? "" : "s", rank_list(ranks)));
}

Windows windows_of(const JobReport& report) {
  Windows windows;
  std::map<std::int32_t, Nanoseconds> of_rank;
  for (const RankSummary& rank : report.ranks) {
    windows.ranks_ns += rank.budget.window_ns;
    of_rank[rank.trace_rank] = rank.budget.window_ns;
  }
  for (const ProcessSummary& process : report.activity.processes) {
    Nanoseconds longest_ns = 0;
    for (const std::int32_t rank : process.trace_ranks) longest_ns = std::max(longest_ns, of_rank[rank]);
    windows.processes_ns += longest_ns;
  }
  return windows;
}

std::string rank_list(const std::vector<std::int32_t>& ranks) {
  constexpr std::size_t named_ranks = 8;
  const std::size_t shown = std::min(ranks.size(), named_ranks);
  std::string text =
      fmt::format("{}", fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

}  // namespace nsys_explain::analysis
