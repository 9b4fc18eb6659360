#include "analysis/findings/connection_findings.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "analysis/findings/finding_sizes.hpp"
#include "model/schema/job.hpp"

namespace nsys_explain::analysis {

std::optional<Finding> find_connection_setup(const JobReport& report) {
  constexpr std::int64_t fewest_later = 8, times_as_long = 3;
  constexpr double least_share = 0.01;
  constexpr std::size_t most_shown = 4;
  const Table* const table = find_table(report.tables, schema::first_collectives);
  if (table == nullptr) return std::nullopt;
  const auto& names = column(*table, schema::first_collectives.communicator);
  const auto& members = column(*table, schema::first_collectives.members);
  const auto& first = column(*table, schema::first_collectives.transfer_ns);
  const auto& longest = column(*table, schema::first_collectives.longest_later_ns);
  const auto& later = column(*table, schema::first_collectives.later);
  Finding finding;
  Nanoseconds cost_ns = 0, window_ns = 0, longest_ns = 0;
  std::int64_t communicators = 0;
  for (const RankSummary& rank : report.ranks) window_ns += rank.budget.window_ns;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (later[i] < fewest_later || first[i] < times_as_long * longest[i]) continue;
    cost_ns += (first[i] - longest[i]) * members[i];
    longest_ns = std::max(longest_ns, first[i]);
    if (++communicators <= static_cast<std::int64_t>(most_shown))
      finding.evidence.push_back(fmt::format(
          "communicator {}, {} members: the first collective transfers for {:.3f} ms, the longest of {} later ones for {:.3f} ms",
          names[i], members[i], 1e3 * seconds(first[i]), later[i], 1e3 * seconds(longest[i])));
  }
  const double part = share(cost_ns, window_ns);
  if (communicators == 0 || part < least_share) return std::nullopt;
  finding.id = "connection-setup";
  finding.severity = FindingSeverity::low;  // once in a run
  finding.title = fmt::format(
      "{:.1f}% of GPU time is the first collective of {} communicator{}, up to {}: NCCL makes connections in it, once",
      100 * part, communicators, communicators == 1 ? "" : "s", duration_text(longest_ns));
  finding.evidence.emplace_back(
      "all members wait for it together; it is no slow link, and nobody is late (table first_collectives)");
  finding.recommendation =
      "leave the first steps out (--skip-warmup), or run each communicator once before the loop (a small all-reduce; NCCL_RUNTIME_CONNECT=0 makes connections when the communicator is made)";
  finding.cost_ns = cost_ns;
  return finding;
}

}  // namespace nsys_explain::analysis
