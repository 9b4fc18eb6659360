#include "analysis/causes/long_waits.hpp"

#include <algorithm>

#include "analysis/causes/attributed_time.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr double share_of_waiting = 0.3;
constexpr double share_of_gpu_time = 0.005;
constexpr double enough_of_waiting = 0.8;
constexpr double enough_saved = 0.01;      // of a finding that matters
constexpr double least_of_longest = 0.01;  // what is less explains nothing beside it

}  // namespace

std::size_t waits_to_explain(const JobReport& report, std::span<const StragglerCase> longest,
                             const SavedByRank& saved) {
  Nanoseconds all_waits_ns = 0, all_windows_ns = 0;
  for (const RankSummary& rank : report.ranks) {
    all_waits_ns += rank.wait_ns;
    all_windows_ns += rank.budget.window_ns;
  }
  const std::vector<const Straggler*> late = attributed_stragglers(report);
  std::size_t count = 0, for_first = 0;
  Nanoseconds held_ns = 0, held_by_others_ns = 0;
  for (const StragglerCase& one : longest) {
    if (static_cast<double>(held_ns) >= enough_of_waiting * static_cast<double>(all_waits_ns)) break;
    if (static_cast<double>(one.caused_wait_ns) <
        least_of_longest * static_cast<double>(longest.front().caused_wait_ns))
      break;
    const bool is_told = std::any_of(late.begin(), late.end(), [&](const Straggler* who) {
      return std::binary_search(who->trace_ranks.begin(), who->trace_ranks.end(), one.straggler.trace_rank);
    });
    held_ns += one.caused_wait_ns;
    held_by_others_ns += is_told ? 0 : one.caused_wait_ns;
    ++count;
    for_first += !is_told && one.straggler.trace_rank == longest.front().straggler.trace_rank ? 1 : 0;
  }
  const auto held = static_cast<double>(held_by_others_ns);
  const bool matters = held >= share_of_waiting * static_cast<double>(all_waits_ns) &&
                       held >= share_of_gpu_time * static_cast<double>(all_windows_ns);
  if (matters) return count;
  const bool is_for_one = count > 0 && for_first == count;
  return is_for_one && saved(longest.front().straggler.trace_rank).value_or(0) >= enough_saved ? count : 0;
}

std::optional<std::int32_t> waited_for_alone(std::span<const LongWait> waits) {
  if (waits.empty()) return std::nullopt;
  const std::int32_t trace_rank = waits.front().trace_rank;
  const bool alone =
      std::all_of(waits.begin(), waits.end(), [&](const LongWait& wait) { return wait.trace_rank == trace_rank; });
  return alone ? std::optional(trace_rank) : std::nullopt;
}

LongWait explain_wait(const StragglerCase& one, const Divergence* divergence) {
  const CaseVerdict verdict = judge_case(one, divergence);
  LongWait wait;
  wait.instance = one.instance;
  wait.trace_rank = one.straggler.trace_rank;
  wait.peer_trace_rank = one.peer.trace_rank;
  wait.caused_wait_ns = one.caused_wait_ns;
  wait.behind_ns = one.straggler.work_ns - one.peer.work_ns;
  if (!verdict.counts) return wait;
  wait.cause = verdict.cause;
  wait.part = verdict.part;
  wait.more_ns = verdict.part_ns;
  if (divergence != nullptr) wait.detail = largest_differences(*divergence, verdict.cause);
  return wait;
}

}  // namespace nsys_explain::analysis
