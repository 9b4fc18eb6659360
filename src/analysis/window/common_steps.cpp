#include "analysis/window/window.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
namespace {

/// Slow first steps are looked for among so many: a job of longer steps than that has few of them.
constexpr std::size_t most_steps_told = 300;

/// Open ends stay open; so does what lies beyond all times.
Nanoseconds moved(Nanoseconds time_ns, Nanoseconds by_ns) {
  if (time_ns == open_begin_ns || time_ns == open_end_ns) return time_ns;
  Nanoseconds result_ns = 0;
  if (__builtin_add_overflow(time_ns, by_ns, &result_ns)) return time_ns < 0 ? open_begin_ns : open_end_ns;
  return result_ns;
}

std::int64_t launched_before(const RecordedSteps& recorded, Nanoseconds time_ns) {
  const std::vector<Nanoseconds>& launched = recorded.communication_ns;
  return std::lower_bound(launched.begin(), launched.end(), time_ns) - launched.begin();
}

/// How two processes' last exits lie to each other.
struct Agreement {
  double scatter_ns = 0;  ///< of how their distance changes from step to step: median distance from the median
  std::size_t changes = 0;
};

/// If step i of one is step i + `later` of the other; nothing where too few steps tell. Clocks change the distance
/// alike from step to step.
std::optional<Agreement> agreement_of_exits(const ProcessSteps& reference, const ProcessSteps& other,
                                            std::int64_t later) {
  constexpr std::size_t fewest = 8;
  constexpr Nanoseconds floor_ns = 100;  // a loop more regular than that tells nothing
  std::vector<Nanoseconds> changes;
  Nanoseconds before_ns = no_time;
  for (std::int64_t i = std::max<std::int64_t>(0, -later); i < std::ssize(other.last_exit_ns); ++i) {
    if (i + later >= std::ssize(reference.last_exit_ns)) break;
    const Nanoseconds own_ns = other.last_exit_ns[static_cast<std::size_t>(i)];
    const Nanoseconds reference_ns = reference.last_exit_ns[static_cast<std::size_t>(i + later)];
    Nanoseconds distance_ns = no_time;
    if (own_ns == no_time || reference_ns == no_time || __builtin_sub_overflow(own_ns, reference_ns, &distance_ns))
      distance_ns = no_time;
    if (distance_ns != no_time && before_ns != no_time) changes.push_back(distance_ns - before_ns);
    before_ns = distance_ns;
  }
  if (changes.size() < fewest) return std::nullopt;
  const Nanoseconds usual_ns = lower_median(changes);
  for (Nanoseconds& change : changes) change = std::abs(change - usual_ns);
  return Agreement{static_cast<double>(std::max(floor_ns, lower_median(changes))), changes.size()};
}

/// Which steps are one, where the exits say so clearly: no step takes as long as another, but the members of a
/// collective leave it together. The log of a median of n distances has a standard error of about 1 / sqrt(n); what
/// agrees best must be four of the difference of two better than any other.
std::optional<std::int64_t> later_by_exits(const ProcessSteps& reference, const ProcessSteps& other) {
  constexpr double standard_errors = 4;
  struct Shift {
    std::int64_t later = 0;
    Agreement agreement;
  };
  std::vector<Shift> shifts;
  const auto most = static_cast<std::int64_t>(std::max(reference.last_exit_ns.size(), other.last_exit_ns.size()) / 2);
  for (std::int64_t later = -most; later <= most; ++later)
    if (const auto agreement = agreement_of_exits(reference, other, later)) shifts.push_back({later, *agreement});
  if (shifts.size() < 2) return std::nullopt;
  std::partial_sort(shifts.begin(), shifts.begin() + 2, shifts.end(), [](const Shift& a, const Shift& b) {
    return std::pair(a.agreement.scatter_ns, a.later) < std::pair(b.agreement.scatter_ns, b.later);
  });
  const Agreement &best = shifts[0].agreement, &second = shifts[1].agreement;
  const double error = std::sqrt(1 / static_cast<double>(best.changes) + 1 / static_cast<double>(second.changes));
  if (std::log(second.scatter_ns / best.scatter_ns) < standard_errors * error) return std::nullopt;
  return shifts[0].later;
}

/// How many steps `other` began later than `reference`: step i of it is step i + so many of the reference.
std::int64_t steps_later(const ProcessSteps& reference, const ProcessSteps& other) {
  if (reference.numbered && other.numbered) return other.first_number - reference.first_number;
  if (const std::optional<std::int64_t> later = later_by_exits(reference, other)) return *later;
  if (reference.steps == other.steps) return 0;
  const double later_ns = static_cast<double>(other.begin_ns.front()) - static_cast<double>(reference.begin_ns.front());
  const double usual_ns = static_cast<double>(std::max<Nanoseconds>(1, reference.usual_ns));
  constexpr double most = 1e9;  // no recording has as many steps
  return std::llround(std::clamp(later_ns / usual_ns, -most, most));
}

/// The process by whose count the others are told, one of those with this source: the same one whatever their order.
const ProcessSteps& reference_of(const std::vector<ProcessSteps>& processes, StepSource source) {
  const auto key = [&](const ProcessSteps& one) {
    return std::tuple(one.source != source, !one.numbered, -one.steps, one.communication_hash,
                      one.begin_ns.empty() ? 0 : one.begin_ns.front(), one.end_ns);
  };
  return *std::min_element(processes.begin(), processes.end(),
                           [&](const ProcessSteps& a, const ProcessSteps& b) { return key(a) < key(b); });
}

/// Steps by the count of the reference: those from `first` on, before `end`.
struct CommonSteps {
  std::int64_t first, end;
};
constexpr CommonSteps unlimited{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};

/// The steps that all recorded, where two recorded equal sequences of communication in other steps: operation by
/// operation they look alike, and are not. A capture that lasted for a few steps on one rank limits nobody else.
CommonSteps steps_of_all(const std::vector<ProcessSteps>& processes, const std::vector<std::int64_t>& later,
                         StepSource source) {
  CommonSteps all = unlimited, any{unlimited.end, unlimited.first};
  std::map<std::uint64_t, std::int64_t> first_of_sequence;
  bool are_alike_but_shifted = false;
  for (std::size_t p = 0; p < processes.size(); ++p) {
    if (processes[p].source != source) continue;
    const std::int64_t first = later[p], end = later[p] + processes[p].steps;
    all = {std::max(all.first, first), std::min(all.end, end)};
    any = {std::min(any.first, first), std::max(any.end, end)};
    const std::int64_t first_alike =
        first_of_sequence.try_emplace(processes[p].communication_hash, first).first->second;
    are_alike_but_shifted = are_alike_but_shifted || first_alike != first;
  }
  if (!are_alike_but_shifted || 2 * (all.end - all.first) < any.end - any.first) return unlimited;
  return {all.first == any.first ? unlimited.first : all.first, all.end == any.end ? unlimited.end : all.end};
}

/// True where processes began this step more than a usual step further apart than they begin the others, by the median:
/// what their clocks differ by is in both.
bool begin_apart(const std::vector<ProcessSteps>& processes, const std::vector<std::int64_t>& later, StepSource source,
                 std::int64_t step) {
  const ProcessSteps& reference = reference_of(processes, source);
  const std::int64_t base = later[static_cast<std::size_t>(&reference - processes.data())];
  Nanoseconds earliest_ns = 0, latest_ns = 0;
  for (std::size_t p = 0; p < processes.size(); ++p) {
    if (processes[p].source != source) continue;
    std::vector<Nanoseconds> apart_ns;
    std::optional<Nanoseconds> here_ns;
    for (std::int64_t i = 0; i < std::ssize(processes[p].begin_ns); ++i) {
      const std::int64_t of_reference = i + later[p] - base;
      if (of_reference < 0 || of_reference >= std::ssize(reference.begin_ns)) continue;
      Nanoseconds distance_ns = 0;
      if (__builtin_sub_overflow(processes[p].begin_ns[static_cast<std::size_t>(i)],
                                 reference.begin_ns[static_cast<std::size_t>(of_reference)], &distance_ns))
        continue;
      if (i + later[p] == step) here_ns = distance_ns;
      apart_ns.push_back(distance_ns);
    }
    if (!here_ns) continue;
    const Nanoseconds beyond_ns = *here_ns - lower_median(apart_ns);
    earliest_ns = std::min(earliest_ns, beyond_ns);
    latest_ns = std::max(latest_ns, beyond_ns);
  }
  return latest_ns - earliest_ns > reference.usual_ns;
}

/// Number of the first steady step, by the count of the reference.
std::int64_t first_steady(const std::vector<ProcessSteps>& processes, const std::vector<std::int64_t>& later,
                          StepSource source) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (std::size_t p = 0; p < processes.size(); ++p)
    if (processes[p].source == source) first = std::min(first, later[p]);
  constexpr float unknown = std::numeric_limits<float>::infinity();
  std::vector<float> least(most_steps_told, unknown);
  for (std::size_t p = 0; p < processes.size(); ++p) {
    if (processes[p].source != source) continue;
    for (std::size_t i = 0; i < processes[p].own_length.size(); ++i) {
      const auto step = static_cast<std::uint64_t>(later[p] - first) + i;
      if (step < least.size()) least[step] = std::min(least[step], processes[p].own_length[i]);
    }
  }
  least.erase(std::find(least.begin(), least.end(), unknown), least.end());
  const auto slow = static_cast<std::int64_t>(slow_first_steps(least));
  // Who began, or was done, early waits in the next step until the others are so far, too: that one is not steady.
  const bool is_waited = std::any_of(processes.begin(), processes.end(), [&](const ProcessSteps& process) {
    const std::int64_t own = first + slow - later[static_cast<std::size_t>(&process - processes.data())];
    return process.source == source && own >= 0 && is_waited_in(process.length, static_cast<std::size_t>(own));
  });
  const bool by_others = slow > 0 || begin_apart(processes, later, source, first);
  return first + slow + (is_waited && by_others ? 1 : 0);
}

/// The window of a process that counts steps as the reference does.
CommonWindow window_of_steps(const ProcessSteps& process, std::int64_t own_first, const ProcessSteps& reference,
                             std::int64_t reference_first) {
  const auto clamped = [](std::int64_t step, const ProcessSteps& of) {
    return static_cast<std::size_t>(std::clamp<std::int64_t>(step, 0, std::ssize(of.begin_ns) - 1));
  };
  const std::size_t own = clamped(own_first, process), other = clamped(reference_first, reference);
  CommonWindow window{{process.begin_ns[own], process.end_ns}};
  // Steps by order may begin elsewhere in the program on each rank. Equal collectives tell where the reference's do, if
  // both recordings began in one step.
  if (process.communication_hash != reference.communication_hash || own_first != reference_first) return window;
  if (process.communications[own] != reference.communications[other])
    window.after_communications = reference.communications[other];
  if (process.communications.back() != reference.communications.back())
    window.until_communications = reference.communications.back();
  return window;
}

/// The window of a process that knows no steps: by the collectives that it shares with the reference, else while the
/// others are analysed.
CommonWindow window_without_steps(const ProcessSteps& process, const Interval& others, const ProcessSteps& reference,
                                  std::int64_t reference_first) {
  CommonWindow window{others};
  if (others.start_ns == open_begin_ns && others.end_ns == open_end_ns) return window;
  if (reference.communications.back() == 0 || process.communication_hash != reference.communication_hash) return window;
  const auto first = std::clamp<std::int64_t>(reference_first, 0, std::ssize(reference.begin_ns) - 1);
  // Before the first collective only time tells.
  if (const std::int64_t before = reference.communications[static_cast<std::size_t>(first)]; before > 0)
    window.after_communications = before;
  window.until_communications = reference.communications.back();
  return window;
}

/// From the first begin to the last end of those that hold anything.
Interval span_of(std::span<const CommonWindow> windows) {
  Interval span{open_end_ns, open_begin_ns};
  for (const CommonWindow& window : windows)
    span = {std::min(span.start_ns, window.time.start_ns), std::max(span.end_ns, window.time.end_ns)};
  return span;
}

}  // namespace

ProcessSteps tell_steps(const RecordedSteps& recorded, Nanoseconds start_ns) {
  ProcessSteps told;
  told.source = recorded.source;
  told.numbered = recorded.numbered;
  told.first_number = recorded.first_number;
  told.steps = std::ssize(recorded.begin_ns);
  told.end_ns = moved(recorded.end_ns, start_ns);
  told.usual_ns = recorded.usual_ns;
  told.communication_hash = recorded.communication_hash;
  const std::size_t count = std::min(recorded.begin_ns.size(), most_steps_told);
  for (std::size_t i = 0; i < count; ++i) {
    told.begin_ns.push_back(moved(recorded.begin_ns[i], start_ns));
    if (i < recorded.own_length.size()) told.own_length.push_back(recorded.own_length[i]);
    if (i < recorded.length.size()) told.length.push_back(recorded.length[i]);
    told.communications.push_back(launched_before(recorded, recorded.begin_ns[i]));
    if (i < recorded.last_exit_ns.size())
      told.last_exit_ns.push_back(recorded.last_exit_ns[i] == no_time ? no_time
                                                                      : moved(recorded.last_exit_ns[i], start_ns));
  }
  told.communications.push_back(launched_before(recorded, recorded.end_ns));
  return told;
}

std::vector<CommonWindow> common_windows(const std::vector<ProcessSteps>& processes) {
  std::vector<CommonWindow> windows;
  StepSource source = StepSource::none;  // ranges of the program outweigh what repeats
  for (const ProcessSteps& one : processes)
    if (one.source == StepSource::nvtx || source == StepSource::none) source = one.source;
  if (source == StepSource::none) {
    std::vector<CommonWindow> own;
    for (const ProcessSteps& one : processes)
      if (!one.begin_ns.empty()) own.push_back({{one.begin_ns.front(), one.end_ns}});
    windows.assign(processes.size(), {span_of(own)});
    return windows;
  }
  const ProcessSteps& reference = reference_of(processes, source);
  std::vector<std::int64_t> later(processes.size(), 0);
  for (std::size_t p = 0; p < processes.size(); ++p)
    if (processes[p].source == source) later[p] = steps_later(reference, processes[p]);
  const CommonSteps common = steps_of_all(processes, later, source);
  const std::int64_t first = std::max(first_steady(processes, later, source), common.first);
  std::vector<CommonWindow> of_steps;
  for (std::size_t p = 0; p < processes.size(); ++p) {
    if (processes[p].source != source) continue;
    CommonWindow window = window_of_steps(processes[p], first - later[p], reference, first);
    if (common.end != unlimited.end && common.end - later[p] < processes[p].steps) {
      window.until_step = common.end - later[p];
      window.until_communications = -1;
    }
    of_steps.push_back(window);
  }
  const Interval span = span_of(of_steps);
  for (std::size_t p = 0, next = 0; p < processes.size(); ++p)
    windows.push_back(processes[p].source == source ? of_steps[next++]
                                                    : window_without_steps(processes[p], span, reference, first));
  return windows;
}

Interval window_in_trace(const CommonWindow& window, const RecordedSteps& recorded, Nanoseconds start_ns) {
  Interval time{moved(window.time.start_ns, -start_ns), moved(window.time.end_ns, -start_ns)};
  if (window.until_step >= 0 && window.until_step < std::ssize(recorded.begin_ns))
    time.end_ns = recorded.begin_ns[static_cast<std::size_t>(window.until_step)];
  const std::vector<Nanoseconds>& launched = recorded.communication_ns;
  if (launched.empty()) return time;
  const auto after = [&](std::int64_t count) {
    return count == 0 ? launched.front()
                      : launched[static_cast<std::size_t>(std::min(count, std::ssize(launched)) - 1)] + 1;
  };
  if (window.after_communications >= 0) time.start_ns = after(window.after_communications);
  if (window.until_communications >= 0) time.end_ns = after(window.until_communications);
  return time;
}

}  // namespace nsys_explain::analysis
