#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "analysis/waits/rank_timeline.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {

namespace {

/// What compute waited.
Nanoseconds blocking_wait(const RankTimeline& timeline, std::size_t i) {
  return timeline.arrivals[i].blocking ? timeline.outcomes[i].wait_ns : 0;
}

/// What compute waited once everybody was there.
Nanoseconds blocking_transfer(const RankTimeline& timeline, std::size_t i) {
  const TimelineArrival& arrival = timeline.arrivals[i];
  if (!arrival.blocking || !arrival.matched) return 0;
  return std::max<Nanoseconds>(0, arrival.exit - arrival.enter - timeline.outcomes[i].wait_ns);
}

/// Surplus of the work before an arrival: a part of it.
Nanoseconds surplus_work(const TimelineArrival& arrival) {
  return std::min(arrival.surplus_ns, arrival.work_ns);
}

/// What compute would have waited without the surplus: who was not the last would have waited longer. no_time where it
/// is not known what it waited.
Nanoseconds wait_without_surplus(const RankTimeline& timeline, std::size_t i) {
  if (!timeline.arrivals[i].matched) return no_time;
  const Nanoseconds wait_ns = blocking_wait(timeline, i);
  return wait_ns > 0 ? wait_ns + surplus_work(timeline.arrivals[i]) : 0;
}

/// WorkSample::position.
std::uint64_t digest_of_position(const RankTimeline& timeline, std::size_t i) {
  const TimelineArrival& arrival = timeline.arrivals[i];
  if (arrival.step < 0) {
    const Outcome& outcome = timeline.outcomes[i];
    return mix_into(mix_into(mix_into(timeline.role, 2), static_cast<std::uint64_t>(outcome.communicator)),
                    static_cast<std::uint64_t>(outcome.sequence));
  }
  const auto in_step =
      static_cast<std::uint64_t>(arrival.occurrences) << 32U | static_cast<std::uint32_t>(arrival.occurrence);
  return mix_into(mix_into(mix_into(timeline.role, arrival.symbol), in_step), static_cast<std::uint64_t>(arrival.step));
}

void set_excess_over(RankTimeline& timeline, std::size_t i, const UsualWork& usual) {
  TimelineArrival& arrival = timeline.arrivals[i];
  arrival.compared = true;
  arrival.excess_work_ns = arrival.work_ns - usual.work_ns;
  arrival.excess_wait_ns = arrival.matched ? blocking_wait(timeline, i) - usual.wait_ns : 0;
  // Ends of transfers differ from member to member on healthy links, too (see links.hpp).
  if (!timeline.outcomes[i].slow_link) return;
  timeline.excess_transfers_ns.resize(timeline.arrivals.size(), 0);
  timeline.excess_transfers_ns[i] = blocking_transfer(timeline, i) - usual.transfer_ns;
}

/// Sets Excess::work_ns.
void add_up_excess_work(RankTimeline& timeline) {
  Nanoseconds before_moment_ns = 0, in_moment_ns = 0;
  for (const std::uint32_t i : timeline.by_readiness) {
    const TimelineArrival& arrival = timeline.arrivals[i];
    if (!arrival.same_moment) {
      before_moment_ns += in_moment_ns;
      in_moment_ns = 0;
    }
    if (arrival.compared) in_moment_ns = arrival.excess_work_ns;
    timeline.before[i].work_ns = before_moment_ns;
  }
  timeline.before.back().work_ns = before_moment_ns + in_moment_ns;
}

/// Sets RankTimeline::transfers_before_ns.
void add_up_transfers(RankTimeline& timeline) {
  const std::vector<Nanoseconds>& excess_ns = timeline.excess_transfers_ns;
  if (excess_ns.empty()) return;
  timeline.transfers_before_ns.assign(excess_ns.size() + 1, 0);
  std::partial_sum(excess_ns.begin(), excess_ns.end(), timeline.transfers_before_ns.begin() + 1);
}

void add_up_excess(RankTimeline& timeline) {
  timeline.before.resize(timeline.arrivals.size() + 1);
  add_up_excess_work(timeline);
  add_up_transfers(timeline);
  Nanoseconds waiting_ns = 0;
  for (std::size_t a = 0; a < timeline.arrivals.size(); ++a) {
    const TimelineArrival& arrival = timeline.arrivals[a];
    timeline.before[a].waiting_ns = waiting_ns;
    if (arrival.blocking && !arrival.beside_compute) waiting_ns += arrival.excess_wait_ns;
  }
  timeline.before.back().waiting_ns = waiting_ns;
}

/// By symbol, as often as most of its arrivals have it in their steps; of two alike the more.
std::map<std::uint64_t, std::int32_t> commonest_occurrences(const RankTimeline& timeline) {
  std::map<std::uint64_t, std::map<std::int32_t, std::int64_t>> arrivals;
  for (const TimelineArrival& arrival : timeline.arrivals)
    if (arrival.step >= 0) ++arrivals[arrival.symbol][arrival.occurrences];
  std::map<std::uint64_t, std::int32_t> commonest;
  for (const auto& [symbol, counts] : arrivals) {
    commonest[symbol] =
        std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second <= b.second; })->first;
  }
  return commonest;
}

}  // namespace

PositionInStep position_in_step(const TimelineArrival& arrival) {
  return {arrival.symbol, arrival.occurrence, arrival.occurrences};
}

std::optional<WorkSample> work_sample(const RankTimeline& timeline, std::size_t i) {
  const TimelineArrival& arrival = timeline.arrivals[i];
  if (arrival.work_ns == no_time || !(arrival.step >= 0 ? arrival.whole_step : arrival.matched)) return std::nullopt;
  return WorkSample{digest_of_position(timeline, i), arrival.work_ns - surplus_work(arrival),
                    wait_without_surplus(timeline, i), blocking_transfer(timeline, i)};
}

std::uint64_t position_among_peers(const RankTimeline& timeline, std::size_t i) {
  const TimelineArrival& arrival = timeline.arrivals[i];
  return (arrival.step >= 0 ? arrival.whole_step : arrival.matched) ? digest_of_position(timeline, i) : 0;
}

std::uint64_t step_among_peers(const RankTimeline& timeline, std::size_t i) {
  const TimelineArrival& arrival = timeline.arrivals[i];
  if (arrival.step < 0 || !arrival.whole_step) return 0;
  return mix_into(mix_into(timeline.role, 3), static_cast<std::uint64_t>(arrival.step));
}

std::uint64_t position_among_steps(const RankTimeline& timeline, std::size_t i) {
  const TimelineArrival& arrival = timeline.arrivals[i];
  if (arrival.step < 0 || !arrival.whole_step) return 0;
  return mix_into(
      mix_into(static_cast<std::uint64_t>(timeline.trace_rank), arrival.symbol),
      static_cast<std::uint64_t>(arrival.occurrences) << 32U | static_cast<std::uint32_t>(arrival.occurrence));
}

void take_usual(RankTimeline& timeline, std::size_t arrival, const UsualWork& usual) {
  if (usual.work_ns == no_time) return;
  set_excess_over(timeline, arrival, usual);
  timeline.arrivals[arrival].has_peers = true;
}

void finish_excess(RankTimeline& timeline) {
  constexpr std::size_t enough_steps = 4;
  std::map<PositionInStep, std::vector<std::size_t>> alone;
  for (std::size_t i = 0; i < timeline.arrivals.size(); ++i) {
    const TimelineArrival& arrival = timeline.arrivals[i];
    if (!arrival.compared && arrival.step >= 0 && arrival.whole_step && arrival.work_ns != no_time &&
        !arrival.since_step)
      alone[position_in_step(arrival)].push_back(i);
  }
  std::map<std::uint64_t, std::int32_t> usual_counts;
  if (!alone.empty()) usual_counts = commonest_occurrences(timeline);
  std::vector<Nanoseconds> work, wait, transfer;
  for (const auto& [position, indices] : alone) {
    // Where some of its kind were lost, which it is of those in other steps is not known.
    if (indices.size() < enough_steps || position.occurrences < usual_counts.at(position.symbol)) continue;
    work.clear();
    wait.clear();
    transfer.clear();
    for (const std::size_t i : indices) {
      work.push_back(timeline.arrivals[i].work_ns - surplus_work(timeline.arrivals[i]));
      if (timeline.arrivals[i].matched) wait.push_back(wait_without_surplus(timeline, i));
      transfer.push_back(blocking_transfer(timeline, i));
    }
    const UsualWork own{lower_median(work), wait.empty() ? 0 : lower_median(wait), lower_median(transfer)};
    for (const std::size_t i : indices) set_excess_over(timeline, i, own);
  }
  add_up_excess(timeline);
}

Nanoseconds excess_transfers_between(const RankTimeline& timeline, std::size_t begin, std::size_t end) {
  const std::vector<Nanoseconds>& before_ns = timeline.transfers_before_ns;
  return before_ns.empty() ? 0 : before_ns[end] - before_ns[begin];
}

Nanoseconds excess_at(const RankTimeline& timeline, std::size_t arrival) {
  const Excess &before = timeline.before[arrival], &after = timeline.before[arrival + 1];
  return after.work_ns - before.work_ns + excess_transfers_between(timeline, arrival, arrival + 1);
}

std::size_t first_since_tied(const TimelineArrival& arrival) {
  return static_cast<std::size_t>(std::int64_t{arrival.synchronised} + 1);
}

Delay delay_of(const RankTimeline& timeline, std::int32_t index) {
  const auto here = static_cast<std::size_t>(index);
  const TimelineArrival& arrival = timeline.arrivals[here];
  const std::size_t since = first_since_tied(arrival);
  const Excess &begin = timeline.before[since], &end = timeline.before[here];
  const Nanoseconds transfers = excess_transfers_between(timeline, since, here);
  const Nanoseconds work = end.work_ns - begin.work_ns + arrival.excess_work_ns + transfers;
  const Nanoseconds waiting = end.waiting_ns - begin.waiting_ns;
  // Work that only shortened a wait made nobody late, nor did waiting after having worked less.
  return {std::max<Nanoseconds>(0, work + std::min<Nanoseconds>(0, waiting)),
          std::max<Nanoseconds>(0, waiting + std::min<Nanoseconds>(0, work))};
}

std::int32_t origin_of(const RankTimeline& timeline, std::int32_t index) {
  std::int32_t origin = index;
  for (auto i = static_cast<std::int32_t>(first_since_tied(timeline.arrivals[static_cast<std::size_t>(index)]));
       i < index; ++i)
    if (excess_at(timeline, static_cast<std::size_t>(i)) > excess_at(timeline, static_cast<std::size_t>(origin)))
      origin = i;
  return origin;
}

Nanoseconds own_lateness_of(const RankTimeline& timeline, std::size_t arrival) {
  return timeline.arrivals[arrival].compared ? delay_of(timeline, static_cast<std::int32_t>(arrival)).own_ns : no_time;
}

namespace {

/// `use(step, its arrivals)`, in order; what lies outside of all steps comes first, as step -1.
template <class Use>
void for_each_step(const RankTimeline& timeline, const Use& use) {
  const auto step_of = [&](std::uint32_t i) { return timeline.arrivals[i].step; };
  for (auto first = timeline.by_step.begin(), end = first; first != timeline.by_step.end(); first = end) {
    end = std::find_if(first, timeline.by_step.end(), [&](std::uint32_t i) { return step_of(i) != step_of(*first); });
    use(step_of(*first), std::span(first, end));
  }
}

/// The capture may have begun or ended within the first or the last step; then positions in it are not where they seem.
void find_whole_steps(RankTimeline& timeline) {
  std::vector<std::int64_t> counts;
  for_each_step(timeline, [&](std::int32_t step, std::span<const std::uint32_t> indices) {
    if (step >= 0) counts.push_back(std::ssize(indices));
  });
  const std::int64_t usual = counts.empty() ? 0 : lower_median(std::vector(counts));
  std::size_t at = 0;
  for_each_step(timeline, [&](std::int32_t step, std::span<const std::uint32_t> indices) {
    const bool at_the_edge = at == 0 || at + 1 == counts.size();
    const bool is_whole = step >= 0 && (!at_the_edge || std::ssize(indices) >= usual);
    for (const std::uint32_t i : indices) timeline.arrivals[i].whole_step = is_whole;
    if (step >= 0) ++at;
  });
}

/// Counts the arrivals of each symbol, anew in each step, and those of each kind in the step.
void number_occurrences(RankTimeline& timeline) {
  std::map<std::uint64_t, std::int32_t> of_symbol, of_kind;  // in the step at hand
  const auto kind_of = [&](const TimelineArrival& arrival) {
    return timeline.sizes_known ? arrival.symbol : static_cast<std::uint64_t>(arrival.operation);
  };
  for_each_step(timeline, [&](std::int32_t step, std::span<const std::uint32_t> indices) {
    of_symbol.clear();
    of_kind.clear();
    for (const std::uint32_t i : indices) {
      timeline.arrivals[i].occurrence = of_symbol[timeline.arrivals[i].symbol]++;
      ++of_kind[kind_of(timeline.arrivals[i])];
    }
    for (const std::uint32_t i : indices)
      timeline.arrivals[i].occurrences = step < 0 ? 0 : of_kind[kind_of(timeline.arrivals[i])];
  });
}

/// The kinds of operation alone: all there is to compare where a capture has no steps, and may begin anywhere.
std::uint64_t digest_of_kinds(const RankTimeline& timeline) {
  std::set<std::uint64_t> kinds;
  std::uint64_t latest = 0;
  for (const TimelineArrival& arrival : timeline.arrivals) {
    if (!kinds.empty() && arrival.symbol == latest) continue;
    kinds.insert(latest = arrival.symbol);
  }
  return std::accumulate(kinds.begin(), kinds.end(), std::uint64_t{0}, mix_into);
}

/// The commonest value, of two alike the lower.
template <class Value>
Value winner(const std::map<Value, std::int64_t>& votes) {
  return std::max_element(votes.begin(), votes.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
}

/// What the steps of a rank are to the job: those in which its instances were, as the members of these agree, or by
/// their number where it has none.
std::vector<std::int32_t> job_steps_of(const RankTimeline& timeline, const CountedSteps& counted) {
  std::vector<std::map<std::int32_t, std::int64_t>> votes(counted.own);
  for (std::size_t i = 0; i < timeline.arrivals.size(); ++i) {
    const std::int32_t own = timeline.arrivals[i].step, told = timeline.outcomes[i].step;
    if (own >= 0 && told >= 0) ++votes[static_cast<std::size_t>(own)][told];
  }
  std::vector<std::int32_t> steps(counted.own, -1);
  for (std::size_t own = 0; own < steps.size(); ++own) {
    if (!votes[own].empty()) {
      steps[own] = winner(votes[own]);
    } else if (counted.first != not_counted) {
      steps[own] = counted.first + static_cast<std::int32_t>(own);
    }
  }
  return steps;
}

}  // namespace

void count_by_job(RankTimeline& timeline, const CountedSteps& counted) {
  timeline.job_steps = job_steps_of(timeline, counted);
  std::vector<std::int32_t> next(timeline.arrivals.size() + 1, -1);  // that is told, from each arrival on
  for (std::size_t i = timeline.arrivals.size(); i-- > 0;)
    next[i] = timeline.outcomes[i].step >= 0 ? timeline.outcomes[i].step : next[i + 1];
  std::int32_t before = -1;
  for (std::size_t i = 0; i < timeline.arrivals.size(); ++i) {
    std::int32_t& step = timeline.arrivals[i].step;
    if (timeline.outcomes[i].step >= 0) {
      step = before = timeline.outcomes[i].step;
      continue;
    }
    // No instance tells: by the rank's own count, but between those that are told.
    step = step < 0 ? before : timeline.job_steps[static_cast<std::size_t>(step)];
    if (step >= 0 && next[i] >= 0) step = std::min(step, std::max(before, next[i]));
    if (step >= 0) step = std::max(step, before);
  }
}

void find_positions(RankTimeline& timeline) {
  timeline.by_step.resize(timeline.arrivals.size());
  std::iota(timeline.by_step.begin(), timeline.by_step.end(), 0U);
  sort_nearly_sorted(timeline.by_step, [&](std::uint32_t a, std::uint32_t b) {
    return timeline.arrivals[a].step < timeline.arrivals[b].step;
  });
  find_whole_steps(timeline);
  number_occurrences(timeline);
}

/// A digest of what each step consists of, communicator by communicator: operations of different communicators may
/// overtake each other. The commonest digest is the role.
void find_role(RankTimeline& timeline) {
  timeline.role = digest_of_kinds(timeline);
  std::map<std::uint64_t, std::int64_t> votes;
  std::vector<std::uint64_t> sequences(timeline.communicators.size());  // of the step at hand
  std::vector<bool> in_step(timeline.communicators.size());
  for_each_step(timeline, [&](std::int32_t, std::span<const std::uint32_t> indices) {
    if (!timeline.arrivals[indices.front()].whole_step) return;
    std::fill(sequences.begin(), sequences.end(), 0);
    std::fill(in_step.begin(), in_step.end(), false);
    for (const std::uint32_t i : indices) {
      const TimelineArrival& arrival = timeline.arrivals[i];
      sequences[arrival.communicator] = mix_into(sequences[arrival.communicator], arrival.symbol);
      in_step[arrival.communicator] = true;
    }
    std::uint64_t digest = 0;
    for (std::size_t c = 0; c < sequences.size(); ++c) digest += in_step[c] ? mix_into(sequences[c], 1) : 0;
    ++votes[digest];
  });
  if (!votes.empty()) timeline.role = winner(votes);
  timeline.role = mix_into(timeline.role, timeline.kind);
}

}  // namespace nsys_explain::analysis
