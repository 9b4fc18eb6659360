#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "analysis/causes/causes.hpp"
#include "analysis/waits/patterns.hpp"
#include "pipeline/attribute/attribution.hpp"

namespace nsys_explain::pipeline {
namespace {

/// By index of the trace rank: those who are late, and all who are late by the slow transfers of one of them.
std::vector<bool> have_part_in(const JobRanks& job, const analysis::JobDelays& delays,
                               const std::vector<Straggler*>& late) {
  std::vector<bool> have_part(job.numbers.size(), false);
  for (const Straggler* one : late)
    for (const std::int32_t trace_rank : one->trace_ranks) have_part[job.index_of(trace_rank)] = true;
  const std::vector<bool> are_late = have_part;
  for (const analysis::SlowPlace& slow : delays.slow_places)
    for (const std::size_t partner : slow.partners)
      if (are_late[slow.ranks.front()]) have_part[partner] = true;
  return have_part;
}

/// What goes on anyway in a bin: the upper quartile of what other ranks take longer than their peers, but not below 0.
Nanoseconds usual_excess(const JobRanks& job, const analysis::JobDelays& delays, const std::vector<Straggler*>& late) {
  const std::vector<bool> have_part = have_part_in(job, delays, late);
  std::vector<std::int64_t> others;
  for (std::size_t r = 0; r < job.numbers.size(); ++r) {
    if (have_part[r]) continue;
    const auto row = delays.excess_work_ns.begin() + static_cast<std::ptrdiff_t>(r * delays.bins);
    others.insert(others.end(), row, row + static_cast<std::ptrdiff_t>(delays.bins));
  }
  if (others.empty()) return 0;
  const auto quartile = others.begin() + static_cast<std::ptrdiff_t>(others.size() * 3 / 4);
  std::nth_element(others.begin(), quartile, others.end());
  return std::max<Nanoseconds>(0, *quartile);
}

/// By step.
struct ExcessSeries {
  std::vector<std::int64_t> excess_ns;  ///< not below 0
  std::size_t first = 0;                ///< the step that it begins with
};

/// Without the steps at either end in which nothing was compared: they may have been as late as the others.
ExcessSeries within_compared(ExcessSeries series, std::span<const std::int64_t> compared) {
  const auto is_compared = [](std::int64_t arrivals) { return arrivals > 0; };
  const auto first = std::find_if(compared.begin(), compared.end(), is_compared);
  if (first == compared.end()) return series;
  const auto after_last = std::find_if(compared.rbegin(), compared.rend(), is_compared).base();
  series.excess_ns.erase(series.excess_ns.begin() + (after_last - compared.begin()), series.excess_ns.end());
  series.excess_ns.erase(series.excess_ns.begin(), series.excess_ns.begin() + (first - compared.begin()));
  series.first = static_cast<std::size_t>(first - compared.begin());
  return series;
}

/// Collective: what the trace ranks of a straggler took longer than their peers.
ExcessSeries excess_series(const exchange::Communicator& communicator, const Attribution& attribution,
                           const Straggler& straggler) {
  std::vector<std::int64_t> series(attribution.steps.start_ns.size(), 0);
  std::vector<std::int64_t> compared(series.size(), 0), with_peers(series.size(), 0);
  for (const StepRow& row : attribution.step_rows) {
    if (!std::binary_search(straggler.trace_ranks.begin(), straggler.trace_ranks.end(), row.trace_rank)) continue;
    const auto step = static_cast<std::size_t>(row.step - attribution.steps.first_number);
    series[step] += row.excess_ns;
    compared[step] += row.compared;
    with_peers[step] += row.with_peers;
  }
  series = communicator.sum(series);
  compared = communicator.sum(compared);
  with_peers = communicator.sum(with_peers);
  // A rank alone in a step is compared with itself in others, and that cannot show what lasts.
  if (std::any_of(with_peers.begin(), with_peers.end(), [](std::int64_t arrivals) { return arrivals > 0; }))
    compared = std::move(with_peers);
  for (std::int64_t& excess : series) excess = std::max<std::int64_t>(0, excess);
  return within_compared({std::move(series), 0}, compared);
}

/// First and last delay lie in the first and last step that it delayed: what it did in others, as everybody does now
/// and then, is not what it is named for.
void keep_within_steps(const analysis::Steps& steps, std::size_t first, std::size_t last, Straggler& straggler) {
  if (straggler.first_ns == no_time) return;
  const Nanoseconds end_ns = last + 1 < steps.start_ns.size() ? steps.start_ns[last + 1] : steps.end_ns;
  straggler.first_ns = std::clamp(straggler.first_ns, steps.start_ns[first], end_ns);
  straggler.last_ns = std::clamp(straggler.last_ns, straggler.first_ns, end_ns);
}

/// Collective: sets pattern and steps of those who are late from what they took longer than their peers, step by step.
/// Not from what that cost: beside a greater delay of somebody else the same lateness costs nothing. Where no steps are
/// known, spans of time tell no pattern: a delay in each step looks like one now and then.
void judge_patterns(const exchange::Communicator& communicator, const JobRanks& job, const Attribution& attribution,
                    const std::vector<Straggler*>& late) {
  const analysis::JobDelays& delays = attribution.delays;
  const Nanoseconds usual_ns = late.empty() ? 0 : usual_excess(job, delays, late);
  for (Straggler* const one : late) {
    Straggler& straggler = *one;
    if (!delays.by_step) {
      straggler.pattern = Pattern::unknown;
      continue;
    }
    const ExcessSeries series = excess_series(communicator, attribution, straggler);
    const std::int64_t length = std::ssize(attribution.steps.start_ns);
    const Nanoseconds noise_ns =
        2 * usual_ns * std::ssize(straggler.trace_ranks) * static_cast<std::int64_t>(delays.bins) / length;
    const analysis::PatternVerdict verdict = analysis::judge_pattern(series.excess_ns, noise_ns);
    straggler.pattern = verdict.pattern;
    const bool throughout = verdict.pattern == Pattern::persistent;
    const std::size_t first = throughout ? 0 : series.first + verdict.first;
    const std::size_t last = throughout ? attribution.steps.start_ns.size() - 1 : series.first + verdict.last;
    straggler.first_step = attribution.steps.first_number + static_cast<std::int64_t>(first);
    straggler.last_step = attribution.steps.first_number + static_cast<std::int64_t>(last);
    if (!throughout) keep_within_steps(attribution.steps, first, last, straggler);
    if (verdict.period) straggler.period_steps = static_cast<std::int64_t>(*verdict.period);
  }
}

DelaySummary summarise_delays(const Attribution& attribution, const std::vector<RankSummary>& ranks,
                              const std::vector<Straggler>& stragglers) {
  DelaySummary summary;
  Nanoseconds windows = 0, named = 0;
  for (const RankSummary& rank : ranks) {
    summary.wait_ns += rank.wait_ns;
    summary.attributed_ns += rank.caused_wait_ns;
    windows += rank.budget.window_ns;
  }
  for (const Straggler& straggler : stragglers) named += straggler.delay_cost_ns;
  summary.unattributed_ns = summary.wait_ns - summary.attributed_ns;
  if (windows > 0) summary.cost_share = static_cast<double>(summary.attributed_ns) / static_cast<double>(windows);
  summary.gpu_hours_per_day = summary.cost_share * static_cast<double>(24 * ranks.size());
  const bool unnamed = 50 * (summary.attributed_ns - named) > windows && 2 * named < summary.attributed_ns;
  summary.rotating = unnamed && attribution.delays.by_step &&
                     analysis::wanders(attribution.delays.caused_wait_ns, ranks.size(), attribution.delays.bins);
  if (summary.rotating) {
    const analysis::RotatingCause why = analysis::rotating_cause(attribution.delays);
    summary.rotating_cause = why.cause;
    summary.rotating_share = why.share;
  }
  summary.steps = static_cast<std::int64_t>(attribution.steps.start_ns.size());
  summary.first_step = attribution.steps.first_number;
  constexpr const char* sources[] = {"none", "nvtx", "periodicity"};
  summary.step_source = sources[static_cast<std::size_t>(attribution.steps.source)];
  return summary;
}

}  // namespace

Verdict reach_verdict(const exchange::Communicator& communicator, const JobRanks& job, std::vector<RankSummary> ranks,
                      const analysis::Totals& totals, const Attribution& attribution,
                      std::span<const analysis::Grouping> groupings, const JobReplay& replay) {
  Verdict verdict;
  verdict.ranks = std::move(ranks);
  analysis::Named named = analysis::find_stragglers(
      verdict.ranks, totals, attribution.delays, groupings,
      [&](std::span<const std::size_t> ranks_to_mend) { return replay.saved_share(ranks_to_mend); });
  verdict.stragglers = std::move(named.stragglers);
  verdict.suspects = std::move(named.suspects);
  verdict.late_without_cost = std::move(named.late_without_cost);
  judge_patterns(communicator, job, attribution, everybody_late(verdict.stragglers, verdict.suspects));
  verdict.delay = summarise_delays(attribution, verdict.ranks, verdict.stragglers);
  return verdict;
}

}  // namespace nsys_explain::pipeline
