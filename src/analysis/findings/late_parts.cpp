#include "analysis/findings/late_parts.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

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
  std::map<std::pair<std::string_view, std::uint64_t>, Nanoseconds> longest_ns;  // by process
  for (const RankSummary& rank : report.ranks) {
    windows.ranks_ns += rank.budget.window_ns;
    of_rank[rank.trace_rank] = rank.budget.window_ns;
  }
  for (const TraceRankIdentity& rank : report.trace_ranks) {
    Nanoseconds& longest = longest_ns[{rank.key.path, rank.key.global_pid}];
    longest = std::max(longest, of_rank[rank.trace_rank]);
  }
  for (const auto& [process, window_ns] : longest_ns) windows.processes_ns += window_ns;
  windows.processes = longest_ns.size();
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
