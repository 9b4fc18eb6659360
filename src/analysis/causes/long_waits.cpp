#include "analysis/causes/causes.hpp"

#include <algorithm>

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
std::vector<const Straggler*> attributed_stragglers(const JobReport& report) {
  std::vector<const Straggler*> told;
  for (const Straggler& straggler : report.stragglers) told.push_back(&straggler);
  for (const SuspectedStraggler& suspect : report.suspects) told.push_back(&suspect.late);
  return told;
}

LateRanks late_by(const JobReport& report, std::initializer_list<Cause> causes) {
  LateRanks late;
  for (const Straggler* const one : attributed_stragglers(report))
    if (std::find(causes.begin(), causes.end(), one->cause) != causes.end())
      late.insert(late.end(), one->trace_ranks.begin(), one->trace_ranks.end());
  std::sort(late.begin(), late.end());
  late.erase(std::unique(late.begin(), late.end()), late.end());
  return late;
}

bool is_among(const LateRanks& late, std::int64_t trace_rank) {
  return std::binary_search(late.begin(), late.end(), trace_rank);
}

TimeOfRank time_of_ranks(const JobReport& report, const schema::Declaration& table, const schema::Integer& time,
                         const std::function<bool(const Table&, std::size_t row)>& counts) {
  TimeOfRank time_ns;
  const Table* const rows = find_table(report.tables, table);
  if (rows == nullptr) return time_ns;
  for (const RankSummary& rank : report.ranks) time_ns[rank.trace_rank] = 0;
  const auto& ranks = column(*rows, schema::trace_rank);
  const auto& times = column(*rows, time);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (counts(*rows, i)) time_ns[ranks[i]] += times[i];
  return time_ns;
}

Nanoseconds surplus_of(const LateRanks& late, const TimeOfRank& time_ns) {
  std::vector<Nanoseconds> others;
  for (const auto& [trace_rank, of_rank_ns] : time_ns)
    if (!is_among(late, trace_rank)) others.push_back(of_rank_ns);
  if (others.empty()) return 0;
  const Nanoseconds usual_ns = lower_median(others);
  Nanoseconds surplus_ns = 0;
  for (const std::int32_t trace_rank : late)
    if (const auto own = time_ns.find(trace_rank); own != time_ns.end())
      surplus_ns += std::max<Nanoseconds>(0, own->second - usual_ns);
  return surplus_ns;
}

namespace {

constexpr double share_of_waiting = 0.3;
constexpr double share_of_gpu_time = 0.005;
constexpr double enough_of_waiting = 0.8;
constexpr double enough_saved = 0.01;      // of a finding that matters
constexpr double least_of_longest = 0.01;  // what is less explains nothing beside it
constexpr double nearly_all = 0.9;
constexpr std::int32_t no_rank = -1;  // all that a finding tells as late

/// Waiting caused by each trace rank.
using WaitByRank = std::map<std::int32_t, Nanoseconds>;

/// Whose share is nearly all of it.
std::optional<std::int32_t> main_rank(const WaitByRank& by_rank) {
  Nanoseconds all_ns = 0;
  for (const auto& [trace_rank, wait_ns] : by_rank) all_ns += wait_ns;
  for (const auto& [trace_rank, wait_ns] : by_rank)
    if (static_cast<double>(wait_ns) >= nearly_all * static_cast<double>(all_ns)) return trace_rank;
  return std::nullopt;
}

}  // namespace

std::size_t waits_to_explain(const JobReport& report, std::span<const StragglerCase> longest,
                             const SavedByRank& saved) {
  Nanoseconds all_waits_ns = 0, all_windows_ns = 0;
  for (const RankSummary& rank : report.ranks) {
    all_waits_ns += rank.wait_ns;
    all_windows_ns += rank.budget.window_ns;
  }
  const std::vector<const Straggler*> late = attributed_stragglers(report);
  std::size_t count = 0;
  WaitByRank by_rank;
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
    by_rank[is_told ? no_rank : one.straggler.trace_rank] += one.caused_wait_ns;
  }
  const auto held = static_cast<double>(held_by_others_ns);
  const bool matters = held >= share_of_waiting * static_cast<double>(all_waits_ns) &&
                       held >= share_of_gpu_time * static_cast<double>(all_windows_ns);
  if (matters) return count;
  const std::optional<std::int32_t> main = main_rank(by_rank);
  return main && *main != no_rank && saved(*main).value_or(0) >= enough_saved ? count : 0;
}

std::optional<std::int32_t> waited_for_alone(std::span<const LongWait> waits) {
  WaitByRank by_rank;
  for (const LongWait& wait : waits) by_rank[wait.trace_rank] += wait.caused_wait_ns;
  return main_rank(by_rank);
}

LongWait explain_wait(const StragglerCase& one, const Divergence* divergence, const ComputeDifference* compute) {
  const CaseVerdict verdict = judge_case(one, compute_cause(compute));
  LongWait wait;
  wait.instance = one.instance;
  wait.trace_rank = one.straggler.trace_rank;
  wait.peer_trace_rank = one.peer.trace_rank;
  wait.caused_wait_ns = one.caused_wait_ns;
  wait.behind_ns = one.straggler.work_ns - one.peer.work_ns;
  if (!verdict.counts) return wait;
  CauseVerdict told = decide_cause(std::span(&one, 1), divergence, compute);
  wait.cause = told.cause;
  wait.part = told.part;
  wait.host_was_in = std::move(told.host_was_in);
  wait.more_ns = verdict.part_ns;
  if (divergence != nullptr) wait.detail = largest_differences(*divergence, verdict.cause);
  return wait;
}

}  // namespace nsys_explain::analysis
