#include <algorithm>
#include <map>

#include "analysis/window/step_candidates.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::size_t fewest_alike = 3;  ///< parts that can be alike by more than chance

/// Parts whose content is looked at: those in the middle, where there are more. Names beyond so many share a count.
constexpr std::size_t most_parts_judged = 512, most_names = 4096;

/// Names of kernels, numbered as they come.
struct KernelNames {
  std::vector<std::size_t> of_kind;
  std::vector<bool> is_communication;  ///< by number

  std::size_t size() const { return is_communication.size(); }
};

KernelNames number_names(const RankEvents& events) {
  std::map<StringIndex, std::size_t> numbers;
  KernelNames names;
  for (std::size_t k = 0; k < events.device.kernel_kinds.size(); ++k) {
    const StringIndex name = events.device.kernel_kinds[k].demangled_name;
    names.of_kind.push_back(numbers.try_emplace(name, numbers.size()).first->second % most_names);
    names.is_communication.resize(std::max(names.size(), names.of_kind.back() + 1), false);
    if (events.communication_kinds[k]) names.is_communication[names.of_kind.back()] = true;
  }
  return names;
}

/// What a candidate makes of the run.
struct Partition {
  const StepCandidate* candidate = nullptr;
  std::size_t inside = 0;   ///< kernels launched in the ranges
  std::size_t within = 0;   ///< from the first range to the end of the last
  std::size_t all = 0;      ///< kernels
  std::size_t holding = 0;  ///< ranges that launch kernels
  std::size_t first_judged = 0;
  PartContents contents;            ///< of the parts judged; each lasts to the begin of the next
  std::vector<std::int32_t> after;  ///< as a part: what was launched behind the last range, or since the open one began
  std::optional<Nanoseconds> after_since_ns;

  std::size_t parts() const { return candidate->ranges.size(); }
  bool encloses_half() const { return inside > 0 && 2 * inside >= within; }
  bool encloses_half_of_all() const { return 2 * inside >= all; }
};

Partition cut(const RankEvents& events, const StepCandidate& candidate, const KernelNames& names) {
  const std::vector<Interval>& ranges = candidate.ranges;
  const std::size_t judged = std::min(ranges.size(), most_parts_judged);
  Partition made{&candidate,
                 0,
                 0,
                 0,
                 0,
                 (ranges.size() - judged) / 2,
                 PartContents(judged, names.size()),
                 std::vector<std::int32_t>(names.size(), 0),
                 candidate.open_since_ns};
  std::vector<bool> holds(ranges.size(), false);
  const Nanoseconds end_ns = ranges.back().end_ns;
  const bool is_open = candidate.open_since_ns && *candidate.open_since_ns >= end_ns;
  if (!is_open) made.after_since_ns.reset();
  std::size_t next = 0;  // range after the one of the latest launch
  for_each_launched_kernel(events, [&](const Kernel& kernel, Nanoseconds launched_ns) {
    ++made.all;
    if (launched_ns < ranges.front().start_ns) return;
    if (is_open ? launched_ns >= *candidate.open_since_ns : launched_ns > end_ns) {
      ++made.after[names.of_kind[kernel.kind]];
      if (!is_open) made.after_since_ns = std::min(made.after_since_ns.value_or(launched_ns), launched_ns);
      return;
    }
    next = upper_bound_near(ranges, next, launched_ns,
                            [](Nanoseconds time_ns, const Interval& range) { return time_ns < range.start_ns; });
    const std::size_t part = next - 1;
    ++made.within;
    if (launched_ns <= ranges[part].end_ns) {
      ++made.inside;
      holds[part] = true;
    }
    if (part >= made.first_judged && part < made.first_judged + judged)
      made.contents.add(part - made.first_judged, names.of_kind[kernel.kind]);
  });
  made.holding = static_cast<std::size_t>(std::count(holds.begin(), holds.end(), true));
  return made;
}

bool most_are_alike(const PartContents& contents, std::span<const std::int32_t> typical) {
  std::size_t alike = 0, holding = 0;
  for (std::size_t part = 0; part < contents.parts(); ++part) {
    if (contents.is_empty(part)) continue;
    ++holding;
    alike += is_alike(contents.of(part), typical) ? 1 : 0;
  }
  return holding >= fewest_alike && 2 * alike >= holding;
}

/// As many together as recur, each group up to a part that holds what most lack.
std::vector<Interval> grouped(const std::vector<Interval>& ranges, const Recurrence& recurrence) {
  const std::size_t period = recurrence.period, behind = recurrence.first % period + 1;  // the first part behind one
  std::vector<Interval> groups;
  for (std::size_t end = behind; end <= ranges.size(); end += period) {
    if (end < period) continue;
    const Nanoseconds last_ns = end < ranges.size() ? ranges[end].start_ns - 1 : ranges[end - 1].end_ns;
    groups.push_back({ranges[end - period].start_ns, last_ns});
  }
  return groups;
}

/// Parts that hold a name, where they are evenly apart: three at least, in half of the run, four fifths of the
/// distances multiples of the period. What comes every ten parts or less often is an evaluation or a checkpoint.
struct EvenHolders {
  std::size_t period = 0;  ///< 0: not even
  std::size_t first = 0;
  std::int64_t kernels = 0, holders = 0;
};

EvenHolders even_holders(const PartContents& contents, std::size_t name) {
  constexpr std::size_t most_apart = 10;
  EvenHolders even;
  std::vector<std::size_t> holders, gaps;
  for (std::size_t part = 0; part < contents.parts(); ++part) {
    if (contents.of(part)[name] == 0) continue;
    if (!holders.empty()) gaps.push_back(part - holders.back());
    holders.push_back(part);
    even.kernels += contents.of(part)[name];
  }
  if (holders.size() < fewest_alike || 2 * (holders.back() - holders.front()) < contents.parts()) return even;
  const std::size_t period = lower_median(std::vector(gaps));
  const std::ptrdiff_t multiples =
      std::count_if(gaps.begin(), gaps.end(), [&](std::size_t gap) { return gap % period == 0; });
  if (period < 2 || period >= most_apart || 5 * multiples < 4 * std::ssize(gaps)) return even;
  even.period = period;
  even.first = holders.front();
  even.holders = std::ssize(holders);
  return even;
}

enum Tier : std::uint8_t { of_profiler, counted, named, other, none };

Tier tier_of(const StepCandidate& candidate) {
  if (candidate.is_of_profiler) return of_profiler;
  if (candidate.names_step) return candidate.counts_on ? counted : named;
  return other;
}

/// The ranges of a candidate with their numbers. Where numbers are missing in a hole of the recording, these steps were
/// made, and not recorded: they have a place there, evenly. Where they are missing elsewhere, the numbers tell nothing.
StepRanges with_numbers(const StepCandidate& candidate, std::span<const Interval> holes) {
  StepRanges steps{candidate.ranges, std::vector<bool>(candidate.ranges.size(), false), candidate.counts_on,
                   candidate.first_number};
  const auto hole_at = [&](std::size_t range) {
    return std::find_if(holes.begin(), holes.end(), [&](const Interval& hole) {
      return hole.start_ns < candidate.ranges[range].start_ns && candidate.ranges[range - 1].start_ns < hole.end_ns;
    });
  };
  std::int64_t missing = 0;
  for (const StepCandidate::Jump& jump : candidate.jumps) {
    steps.numbered = steps.numbered && hole_at(jump.range) != holes.end();
    missing += std::min(jump.missing, std::ssize(candidate.ranges) + 1);
  }
  steps.numbered = steps.numbered && missing <= std::ssize(candidate.ranges);
  if (!steps.numbered) return steps;
  for (auto jump = candidate.jumps.rbegin(); jump != candidate.jumps.rend(); ++jump) {
    const Interval hole = *hole_at(jump->range);
    const Nanoseconds begin_ns = std::max(hole.start_ns, candidate.ranges[jump->range - 1].start_ns + 1);
    const Nanoseconds each_ns = std::max<Nanoseconds>(0, hole.end_ns - begin_ns) / jump->missing;
    std::vector<Interval> added;
    for (std::int64_t i = 0; i < jump->missing; ++i) added.push_back({begin_ns + i * each_ns, begin_ns + i * each_ns});
    const auto at = static_cast<std::ptrdiff_t>(jump->range);
    steps.ranges.insert(steps.ranges.begin() + at, added.begin(), added.end());
    steps.is_missing.insert(steps.is_missing.begin() + at, added.size(), true);
  }
  return steps;
}

/// The parts as steps; empty where the witnesses contradict.
StepRanges as_steps(const Partition& cut, const std::vector<bool>& is_communication, std::span<const Interval> holes) {
  const StepCandidate& candidate = *cut.candidate;
  const std::vector<std::int32_t> typical = typical_content(cut.contents);
  const Tier tier = tier_of(candidate);
  if (!cut.encloses_half()) return {};
  if (tier == of_profiler || tier == counted || cut.parts() < fewest_alike) {
    if (2 * cut.holding < cut.parts()) return {};
    if (cut.parts() < fewest_alike && !cut.encloses_half_of_all()) return {};
  } else {
    if (!most_are_alike(cut.contents, typical)) return {};
    Recurrence rare = recurrence_of_rare(cut.contents, typical, is_communication, candidate.restarts_after());
    if (rare.period > 0) {
      rare.first = (rare.first + cut.first_judged) % rare.period;
      StepRanges groups{grouped(candidate.ranges, rare), {}, false, 0};
      groups.is_missing.assign(groups.ranges.size(), false);
      return groups;
    }
  }
  // A range that was open when the capture stopped is not recorded by all versions of nsys.
  StepRanges steps = with_numbers(candidate, holes);
  if (cut.after_since_ns && is_alike(cut.after, typical)) {
    steps.ranges.push_back({*cut.after_since_ns, std::numeric_limits<Nanoseconds>::max()});
    steps.is_missing.push_back(false);
  }
  return steps;
}

}  // namespace

std::vector<std::int32_t> typical_content(const PartContents& contents) {
  std::vector<std::int32_t> typical;
  std::vector<std::int32_t> of_parts;
  for (std::size_t name = 0; name < contents.names(); ++name) {
    of_parts.clear();
    for (std::size_t part = 0; part < contents.parts(); ++part)
      if (!contents.is_empty(part)) of_parts.push_back(contents.of(part)[name]);
    typical.push_back(of_parts.empty() ? 0 : lower_median(of_parts));
  }
  return typical;
}

bool is_alike(std::span<const std::int32_t> counts, std::span<const std::int32_t> typical) {
  std::int64_t different = 0, all = 0;
  for (std::size_t name = 0; name < typical.size(); ++name) {
    different += std::abs(std::int64_t{counts[name]} - typical[name]);
    all += typical[name];
  }
  return all > 0 && 10 * different <= all;
}

Recurrence recurrence_of_rare(const PartContents& contents, std::span<const std::int32_t> typical,
                              const std::vector<bool>& is_communication, std::size_t restarts_after) {
  struct Rare {
    std::size_t first = 0;
    std::int64_t kernels = 0, holders = 0;
    bool communicates = false;
  };
  std::map<std::size_t, Rare> by_period;
  std::int64_t usual = 0;
  bool all_communicate = false;
  for (std::size_t name = 0; name < contents.names(); ++name) {
    usual += typical[name];
    all_communicate = all_communicate || (typical[name] > 0 && is_communication[name]);
    const EvenHolders even = even_holders(contents, name);
    if (typical[name] > 0 || even.period == 0) continue;
    Rare& rare = by_period.try_emplace(even.period, Rare{even.first}).first->second;
    rare.kernels += even.kernels;
    rare.holders = std::max(rare.holders, even.holders);
    rare.communicates = rare.communicates || is_communication[name];
  }
  for (auto rare = by_period.rbegin(); rare != by_period.rend(); ++rare) {
    const bool is_much = 10 * rare->second.kernels >= usual * rare->second.holders;
    const bool joins = rare->second.communicates && !all_communicate;
    if (is_much || joins || rare->first == restarts_after) return {rare->first, rare->second.first};
  }
  return {};
}

StepRanges choose_step_ranges(const RankEvents& events) {
  if (events.process.api_calls.empty()) return {};  // when a kernel was launched is not known
  const std::vector<StepCandidate> candidates = step_candidates(events);
  const KernelNames names = number_names(events);
  struct Choice {
    Tier tier = none;
    std::size_t inside = 0;
    StepRanges steps;
  };
  // One or two parts come behind many.
  const auto order = [](const Choice& choice) {
    return std::tuple(choice.steps.ranges.size() < fewest_alike, choice.tier, -std::ssize(choice.steps.ranges),
                      -static_cast<std::int64_t>(choice.inside));
  };
  std::optional<Choice> best;
  for (const bool are_named : {true, false}) {
    if (best) break;
    for (const StepCandidate& candidate : candidates) {
      const Tier tier = tier_of(candidate);
      if ((tier != other) != are_named) continue;
      const Partition partition = cut(events, candidate, names);
      Choice choice{tier, partition.inside, as_steps(partition, names.is_communication, events.holes)};
      if (!choice.steps.ranges.empty() && (!best || order(choice) < order(*best))) best = std::move(choice);
    }
  }
  return best ? std::move(best->steps) : StepRanges{};
}

}  // namespace nsys_explain::analysis
