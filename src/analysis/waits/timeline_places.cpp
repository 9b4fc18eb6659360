#include "analysis/waits/timeline_parts.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "nsys_explain/model/lower_median.hpp"
#include "nsys_explain/model/sorting.hpp"

namespace nsys_explain::analysis {
namespace {

/// `use(step, its arrivals)`, in order; what lies outside of all steps comes first, as step -1.
template <class Use>
void for_each_step(const RankTimeline& path, const Use& use) {
  const auto step_of = [&](std::uint32_t i) { return path.arrivals[i].step; };
  for (auto first = path.by_step.begin(), end = first; first != path.by_step.end(); first = end) {
    end = std::find_if(first, path.by_step.end(), [&](std::uint32_t i) { return step_of(i) != step_of(*first); });
    use(step_of(*first), std::span(first, end));
  }
}

/// The capture may have begun or ended within the first or the last step; then places in it are not where they seem.
void find_whole_steps(RankTimeline& path) {
  std::vector<std::int64_t> counts;
  for_each_step(path, [&](std::int32_t step, std::span<const std::uint32_t> indices) {
    if (step >= 0) counts.push_back(std::ssize(indices));
  });
  const std::int64_t usual = counts.empty() ? 0 : lower_median(std::vector(counts));
  std::size_t at = 0;
  for_each_step(path, [&](std::int32_t step, std::span<const std::uint32_t> indices) {
    const bool at_the_edge = at == 0 || at + 1 == counts.size();
    const bool is_whole = step >= 0 && (!at_the_edge || std::ssize(indices) >= usual);
    for (const std::uint32_t i : indices) path.arrivals[i].whole_step = is_whole;
    if (step >= 0) ++at;
  });
}

/// Counts the arrivals of each symbol, anew in each step, and those of each kind in the step.
void number_occurrences(RankTimeline& path) {
  std::map<std::uint64_t, std::int32_t> of_symbol, of_kind;  // in the step at hand
  const auto kind_of = [&](const PathArrival& arrival) {
    return path.sizes_known ? arrival.symbol : static_cast<std::uint64_t>(arrival.operation);
  };
  for_each_step(path, [&](std::int32_t step, std::span<const std::uint32_t> indices) {
    of_symbol.clear();
    of_kind.clear();
    for (const std::uint32_t i : indices) {
      path.arrivals[i].occurrence = of_symbol[path.arrivals[i].symbol]++;
      ++of_kind[kind_of(path.arrivals[i])];
    }
    for (const std::uint32_t i : indices)
      path.arrivals[i].occurrences = step < 0 ? 0 : of_kind[kind_of(path.arrivals[i])];
  });
}

/// The kinds of operation alone: all there is to compare where a capture has no steps, and may begin anywhere.
std::uint64_t digest_of_kinds(const RankTimeline& path) {
  std::set<std::uint64_t> kinds;
  std::uint64_t latest = 0;
  for (const PathArrival& arrival : path.arrivals) {
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
std::vector<std::int32_t> job_steps_of(const RankTimeline& path, const CountedSteps& counted) {
  std::vector<std::map<std::int32_t, std::int64_t>> votes(counted.own);
  for (std::size_t i = 0; i < path.arrivals.size(); ++i) {
    const std::int32_t own = path.arrivals[i].step, told = path.outcomes[i].step;
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

void count_by_job(RankTimeline& path, const CountedSteps& counted) {
  path.job_steps = job_steps_of(path, counted);
  std::vector<std::int32_t> next(path.arrivals.size() + 1, -1);  // that is told, from each arrival on
  for (std::size_t i = path.arrivals.size(); i-- > 0;)
    next[i] = path.outcomes[i].step >= 0 ? path.outcomes[i].step : next[i + 1];
  std::int32_t before = -1;
  for (std::size_t i = 0; i < path.arrivals.size(); ++i) {
    std::int32_t& step = path.arrivals[i].step;
    if (path.outcomes[i].step >= 0) {
      step = before = path.outcomes[i].step;
      continue;
    }
    // No instance tells: by the rank's own count, but between those that are told.
    step = step < 0 ? before : path.job_steps[static_cast<std::size_t>(step)];
    if (step >= 0 && next[i] >= 0) step = std::min(step, std::max(before, next[i]));
    if (step >= 0) step = std::max(step, before);
  }
}

void find_places(RankTimeline& path) {
  path.by_step.resize(path.arrivals.size());
  std::iota(path.by_step.begin(), path.by_step.end(), 0U);
  sort_nearly_sorted(path.by_step,
                     [&](std::uint32_t a, std::uint32_t b) { return path.arrivals[a].step < path.arrivals[b].step; });
  find_whole_steps(path);
  number_occurrences(path);
}

/// A digest of what each step consists of, communicator by communicator: operations of different communicators may
/// overtake each other. The commonest digest is the role.
void find_role(RankTimeline& path) {
  path.role = digest_of_kinds(path);
  std::map<std::uint64_t, std::int64_t> votes;
  std::vector<std::uint64_t> sequences(path.communicators.size());  // of the step at hand
  std::vector<bool> in_step(path.communicators.size());
  for_each_step(path, [&](std::int32_t, std::span<const std::uint32_t> indices) {
    if (!path.arrivals[indices.front()].whole_step) return;
    std::fill(sequences.begin(), sequences.end(), 0);
    std::fill(in_step.begin(), in_step.end(), false);
    for (const std::uint32_t i : indices) {
      const PathArrival& arrival = path.arrivals[i];
      sequences[arrival.communicator] = mix_into(sequences[arrival.communicator], arrival.symbol);
      in_step[arrival.communicator] = true;
    }
    std::uint64_t digest = 0;
    for (std::size_t c = 0; c < sequences.size(); ++c) digest += in_step[c] ? mix_into(sequences[c], 1) : 0;
    ++votes[digest];
  });
  if (!votes.empty()) path.role = winner(votes);
  path.role = mix_into(path.role, path.kind);
}

}  // namespace nsys_explain::analysis
