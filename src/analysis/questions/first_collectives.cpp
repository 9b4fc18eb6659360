#include "analysis/questions/question.hpp"

#include <algorithm>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/job.hpp"

namespace nsys_explain::analysis::questions {
namespace {

/// NCCL makes the connections of a communicator in its first collective: told with what that takes, which is no slow
/// transfer and no waiting. Where the first one takes three times the longest of eight and more later ones, and these
/// first ones together at least 1% of the GPU time. Cost: beyond the longest later one, times the members.
void find_connection_setup(const JobReport& report, std::vector<Finding>& findings) {
  constexpr std::int64_t fewest_later = 8, times_as_long = 3;
  constexpr double least_share = 0.01;
  constexpr std::size_t most_shown = 4;
  const Table* const table = find_table(report.tables, schema::first_collectives);
  if (table == nullptr) return;
  const auto& names = column(*table, schema::first_collectives.communicator);
  const auto& members = column(*table, schema::first_collectives.members);
  const auto& first = column(*table, schema::first_collectives.transfer_ns);
  const auto& longest = column(*table, schema::first_collectives.longest_later_ns);
  const auto& later = column(*table, schema::first_collectives.later);
  std::vector<std::string> evidence;
  Nanoseconds cost_ns = 0, longest_ns = 0;
  std::int64_t communicators = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (later[i] < fewest_later || first[i] < times_as_long * longest[i]) continue;
    cost_ns += (first[i] - longest[i]) * members[i];
    longest_ns = std::max(longest_ns, first[i]);
    if (++communicators <= static_cast<std::int64_t>(most_shown))
      evidence.push_back(fmt::format(
          "communicator {}, {} members: the first collective transfers for {:.3f} ms, the longest of {} later ones for {:.3f} ms",
          names[i], members[i], 1e3 * seconds(first[i]), later[i], 1e3 * seconds(longest[i])));
  }
  const double part = share(cost_ns, windows_of(report).ranks_ns);
  if (communicators == 0 || part < least_share) return;
  evidence.emplace_back(
      "all members wait for it together; it is no slow link, and nobody is late (table first_collectives)");
  findings.push_back(
      {.id = "connection-setup",
       .severity = FindingSeverity::low,  // once in a run
       .title = fmt::format(
           "{:.1f}% of GPU time is the first collective of {} communicator{}, up to {}: NCCL makes connections in it, once",
           100 * part, communicators, communicators == 1 ? "" : "s", duration_text(longest_ns)),
       .evidence = std::move(evidence),
       .recommendation =
           "leave the first steps out (--skip-warmup), or run each communicator once before the loop (a small all-reduce; NCCL_RUNTIME_CONNECT=0 makes connections when the communicator is made)",
       .cost_ns = cost_ns});
}

}  // namespace

Question first_collectives() {
  return {.shown = {.table = schema::first_collectives.table_name(),
                    .findings = {"connection-setup"},
                    .view = "communicators"},
          .find = find_connection_setup};
}

}  // namespace nsys_explain::analysis::questions
