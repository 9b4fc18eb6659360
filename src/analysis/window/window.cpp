#include "analysis/window/window.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "analysis/trace/launches.hpp"
#include "model/text.hpp"

namespace nsys_explain::analysis {

namespace {

constexpr Nanoseconds beginning = std::numeric_limits<Nanoseconds>::min();
constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max();

/// Half-open, but for ranges without length.
bool holds(const Interval& window, Nanoseconds time_ns) {
  return time_ns >= window.start_ns && time_ns < window.end_ns;
}

Interval common(const Interval& a, const Interval& b) {
  return {std::max(a.start_ns, b.start_ns), std::min(a.end_ns, b.end_ns)};
}

struct NumberedRange {
  std::int64_t number = 0;
  Interval time;
};

class ProcessView {
 public:
  ProcessView(const Trace& trace, const ProcessTrace& process, Nanoseconds open_end_ns)
      : trace_(trace), process_(process), open_end_ns_(open_end_ns) {}

  std::optional<Interval> window_of(const RangeSelector& selector) const;
  std::vector<NumberedRange> steps(const PhaseNames& phases) const;

 private:
  Interval time_of(const NvtxRange& range) const {
    return {range.start_ns, range.end_ns == no_time ? open_end_ns_ : range.end_ns};
  }

  const Trace& trace_;
  const ProcessTrace& process_;
  Nanoseconds open_end_ns_;
};

std::optional<Interval> ProcessView::window_of(const RangeSelector& selector) const {
  std::optional<Interval> window;
  std::int64_t index = 0;
  for (const NvtxRange& range : process_.nvtx_ranges) {
    if (range.kind == NvtxKind::mark || trace_.strings[range.text] != selector.label) continue;
    if (selector.domain != "*" && trace_.strings[range.domain] != selector.domain) continue;
    const Interval time = time_of(range);
    if (selector.index) {
      if (index++ == *selector.index) return time;
    } else {
      window = window ? Interval{window->start_ns, std::max(window->end_ns, time.end_ns)} : time;
    }
  }
  return window;
}

/// Steps in order of time. Steps inside others of the same kind (a step function called by a step) do not count.
std::vector<NumberedRange> ProcessView::steps(const PhaseNames& phases) const {
  std::unordered_map<StringIndex, std::optional<RecognisedPhase>> known;
  std::vector<NumberedRange> steps;
  std::int64_t counted = 0;
  for (const NvtxRange& range : process_.nvtx_ranges) {
    if (range.kind == NvtxKind::mark || range.is_nccl_call) continue;
    const auto [entry, is_new] = known.try_emplace(range.text);
    if (is_new) entry->second = phases.recognise(trace_.strings[range.text]);
    const auto& found = entry->second;
    if (!found || found->name != phase::step) continue;
    const Interval time = time_of(range);
    if (!steps.empty() && time.end_ns <= steps.back().time.end_ns) continue;
    steps.push_back({found->number >= 0 ? found->number : counted, time});
    ++counted;
  }
  return steps;
}

/// Its steps, from ranges, else from the order of its kernels.
std::vector<NumberedRange> steps_of(const ProcessView& view, const ProcessTrace& process, const PhaseNames& phases,
                                    const StepsByOrder& steps_by_order) {
  std::vector<NumberedRange> steps = view.steps(phases);
  if (!steps.empty() || !steps_by_order) return steps;
  for (const Interval& step : steps_by_order(process)) steps.push_back({std::ssize(steps), step});
  return steps;
}

/// Empty: the process does not have what was asked for.
std::optional<Interval> window_of_process(const ProcessView& view, const ProcessTrace& process,
                                          const WindowRequest& request, const PhaseNames& phases,
                                          const StepsByOrder& steps_by_order) {
  Interval window{beginning, never};
  if (request.range) {
    const auto range = view.window_of(*request.range);
    if (!range) return std::nullopt;
    window = common(window, *range);
  }
  if (!request.steps && request.warmup_steps == 0) return window;
  std::vector<NumberedRange> steps = steps_of(view, process, phases, steps_by_order);
  if (steps.empty() && steps_by_order) return window;
  const auto warmup = static_cast<std::size_t>(request.warmup_steps);
  if (steps.size() <= warmup) return std::nullopt;
  if (warmup > 0) window.start_ns = std::max(window.start_ns, steps[warmup].time.start_ns);
  if (!request.steps) return window;
  steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(warmup));
  std::optional<Interval> chosen;
  for (const NumberedRange& step : steps) {
    if (request.steps->first && step.number < *request.steps->first) continue;
    if (request.steps->last && step.number > *request.steps->last) continue;
    chosen = chosen
                 ? Interval{std::min(chosen->start_ns, step.time.start_ns), std::max(chosen->end_ns, step.time.end_ns)}
                 : step.time;
  }
  if (!chosen) return std::nullopt;
  return common(window, *chosen);
}

/// True for what tells who a communicator's members are, whenever it was said.
bool identifies(const NcclCall& call) {
  return call.function == NcclFunction::comm_init || call.function == NcclFunction::comm_split ||
         call.function == NcclFunction::comm_destroy;
}

/// Ranges that overlap `span`; calls of NCCL follow their ranges, but for those that graphs may replay: these were made
/// once, before the steps that replay them.
void keep_ranges(ProcessTrace& process, const Interval& span) {
  std::vector<NcclCall> calls;
  std::size_t next_call = 0;
  process.nvtx_ranges.keep_if([&](const NvtxRange& range) {
    const bool has_end = range.end_ns != no_time;
    const Nanoseconds end_ns = has_end ? range.end_ns : range.kind == NvtxKind::mark ? range.start_ns : never;
    const bool kept = range.start_ns < span.end_ns && end_ns >= span.start_ns;
    if (range.is_nccl_call) {
      const NcclCall& call = process.nccl_calls[next_call++];
      if (kept || !process.graph_nodes.empty() || identifies(call)) calls.push_back(call);
    }
    return kept;
  });
  process.nccl_calls = std::move(calls);
}

template <class Event, class Keep>
void keep_if(std::vector<Event>& events, Keep&& keep) {
  std::erase_if(events, [&](const Event& event) { return !keep(event); });
}

/// Keeps GPU activity by its launch or by its own start, and marks the calls that launched what is kept.
class ActivityFilter {
 public:
  ActivityFilter(const ProcessTrace& process, const Interval& window, bool by_launch)
      : launches_(process.api_calls),
        window_(window),
        by_launch_(by_launch),
        launched_kept_(process.api_calls.size(), false) {}

  /// For activities of one kind, by start; `stream_of`: of each of them.
  template <class Activities, class StreamOf>
  auto filter(const Activities& activities, const StreamOf& stream_of) {
    return [this, stream_of, times = StreamLaunches(launches_, activities, stream_of)](const auto& activity) mutable {
      const bool kept =
          holds(window_, by_launch_ ? times.launched_ns(activity, stream_of(activity)) : activity.start_ns);
      const std::uint32_t call = launches_.number_of(activity.correlation_id, activity.start_ns);
      if (kept && call != LaunchIndex::no_call) launched_kept_[call] = true;
      return kept;
    };
  }
  bool launched_kept(std::size_t call) const { return launched_kept_[call]; }

 private:
  LaunchIndex launches_;
  Interval window_;
  bool by_launch_;
  std::vector<bool> launched_kept_;
};

void clip_process(ProcessTrace& process, const Interval& window, bool by_launch) {
  ActivityFilter filter(process, window, by_launch);
  for (DeviceTrace& device : process.devices) {
    device.kernels.keep_if(filter.filter(device.kernels, [&](const Kernel& kernel) {
      const KernelKind& kind = device.kind_of(kernel);
      return StreamLaunches::Stream{kind.context_id, kind.stream_id};
    }));
    keep_if(device.memory_operations, filter.filter(device.memory_operations, [](const MemoryOperation& operation) {
      return StreamLaunches::Stream{operation.context_id, operation.stream_id};
    }));
    keep_if(device.graph_launches, filter.filter(device.graph_launches, [](const GraphLaunch& graph) {
      return StreamLaunches::Stream{0, graph.stream_id};
    }));
  }
  Interval span = window;  // of the calls that stay
  std::size_t number = 0;
  process.api_calls.keep_if([&](const ApiCall& call) {
    const bool launched_kept = filter.launched_kept(number++);
    if (!holds(window, call.start_ns) && !launched_kept) return false;
    span = {std::min(span.start_ns, call.start_ns), std::max(span.end_ns, call.end_ns)};
    return true;
  });
  keep_ranges(process, span);
  const auto starts_inside = [&](const auto& event) { return holds(window, event.start_ns); };
  const auto lies_inside = [&](const auto& event) { return holds(window, event.time_ns); };
  keep_if(process.mpi_calls, starts_inside);
  keep_if(process.synchronizations, starts_inside);
  keep_if(process.os_calls, starts_inside);
  keep_if(process.overheads, starts_inside);
  keep_if(process.traced_calls, starts_inside);
  keep_if(process.library_calls, starts_inside);
  keep_if(process.memory_events, lies_inside);
  keep_if(process.cpu_samples, lies_inside);
  keep_if(process.scheduling_events, lies_inside);
}

bool has_gpu_activity(const ProcessTrace& process) {
  return std::any_of(process.devices.begin(), process.devices.end(), [](const DeviceTrace& device) {
    return !device.kernels.empty() || !device.memory_operations.empty() || !device.graph_launches.empty();
  });
}

std::string missing_ranges(const WindowRequest& request) {
  if (request.range) {
    return fmt::format(
        "no process that uses a GPU has the NVTX range '{}'{} of --filter-nvtx, so nothing of this input is in the window; table nvtx_sum of a run without it lists the ranges and their domains",
        request.range->label,
        request.range->index ? fmt::format(" number {} (counted from 0)", *request.range->index) : "");
  }
  return "no process that uses a GPU has the steps asked for, so nothing of this input is in the window; steps are NVTX ranges such as 'step 12' (others by --phase-map); without them use --filter-time";
}

}  // namespace

void clip_to_launched(Trace& trace, const ProcessWindows& windows) {
  for (ProcessTrace& process : trace.processes) {
    const auto window = windows.find(process.global_pid);
    if (window == windows.end()) continue;
    if (window->second.start_ns == beginning && window->second.end_ns == never) continue;
    clip_process(process, window->second, true);
  }
}

ProcessWindows clip_to_window(Trace& trace, const WindowRequest& request, Nanoseconds epoch_in_trace_ns,
                              const PhaseNames& phases, const StepsByOrder& steps_by_order) {
  ProcessWindows windows;
  if (!request.any()) return windows;
  Interval time{beginning, never};
  if (request.time) {
    if (request.time->start_ns != beginning) time.start_ns = request.time->start_ns + epoch_in_trace_ns;
    if (request.time->end_ns != never) time.end_ns = request.time->end_ns + epoch_in_trace_ns;
  }
  const Nanoseconds open_end_ns = last_time(trace);
  bool any_gpu = false, any_found = false;
  for (const ProcessTrace& process : trace.processes) {
    const auto found =
        window_of_process(ProcessView(trace, process, open_end_ns), process, request, phases, steps_by_order);
    if (found) windows[process.global_pid] = common(time, *found);
    any_gpu = any_gpu || has_gpu_activity(process);
    any_found = any_found || (found && has_gpu_activity(process));
  }
  if (any_gpu && !any_found) throw std::runtime_error(missing_ranges(request));
  for (ProcessTrace& process : trace.processes) {
    const auto window = windows.find(process.global_pid);
    clip_process(process, window == windows.end() ? Interval{} : window->second, request.asks_for_ranges());
  }
  return windows;
}

namespace {

std::optional<std::int64_t> whole_number(std::string_view text) {
  const auto number = integer_of(text);
  return number && *number >= 0 ? number : std::nullopt;
}

std::optional<Nanoseconds> unit_length(std::string_view unit) {
  if (unit == "ns" || unit.empty()) return 1;
  if (unit == "us") return 1'000;
  if (unit == "ms") return 1'000'000;
  if (unit == "s" || unit == "sec") return 1'000'000'000;
  if (unit == "m" || unit == "min") return 60'000'000'000;
  if (unit == "h") return 3'600'000'000'000;
  return std::nullopt;
}

/// "1s500ms", "2.5s", "17".
std::optional<Nanoseconds> duration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  Nanoseconds total = 0;
  while (!text.empty()) {
    const std::size_t number_end = std::min(text.find_first_not_of("0123456789."), text.size());
    const std::size_t unit_end = std::min(text.find_first_of("0123456789.", number_end), text.size());
    const auto unit = unit_length(text.substr(number_end, unit_end - number_end));
    if (number_end == 0 || !unit) return std::nullopt;
    // In integers: "0.1s" is a hundred million nanoseconds, not one less.
    const std::string_view number = text.substr(0, number_end);
    const std::size_t point = std::min(number.find('.'), number.size());
    const auto whole = whole_number(number.substr(0, point));
    Nanoseconds part = 0;
    if (!whole || __builtin_mul_overflow(*whole, *unit, &part) || __builtin_add_overflow(total, part, &total))
      return std::nullopt;
    Nanoseconds digit_ns = *unit;
    for (const char digit : number.substr(std::min(point + 1, number.size()))) {
      if (digit == '.') return std::nullopt;
      digit_ns /= 10;
      total += (digit - '0') * digit_ns;
    }
    text.remove_prefix(unit_end);
  }
  return total;
}

std::runtime_error refusal(std::string_view option, std::string_view text, std::string_view problem,
                           std::string_view example) {
  return std::runtime_error(fmt::format("{} '{}' {}, so it is not known which part of the run to look at; write {}",
                                        option, text, problem, example));
}

}  // namespace

Interval parse_filter_time(std::string_view text) {
  return parse_time_window("--filter-time", text);
}

Interval parse_time_window(std::string_view option, std::string_view text) {
  const auto refuse = [&](std::string_view problem) {
    return refusal(option, text, problem, "START/END, for example 5s/7s, 1s500ms/2s or 5s/");
  };
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos || text.size() == 1) throw refuse("is no span of time");
  Interval interval{std::numeric_limits<Nanoseconds>::min(), std::numeric_limits<Nanoseconds>::max()};
  const std::string_view start = text.substr(0, slash), end = text.substr(slash + 1);
  if (!start.empty()) {
    const auto value = duration(start);
    if (!value) throw refuse(fmt::format("has the start '{}', which is no time", start));
    interval.start_ns = *value;
  }
  if (!end.empty()) {
    const auto value = duration(end);
    if (!value) throw refuse(fmt::format("has the end '{}', which is no time", end));
    interval.end_ns = *value;
  }
  if (interval.start_ns >= interval.end_ns) throw refuse("ends before it starts");
  return interval;
}

RangeSelector parse_filter_nvtx(std::string_view text) {
  RangeSelector selector;
  std::string_view rest = text;
  // A slash in a label is no index unless a number follows it.
  if (const std::size_t slash = rest.rfind('/'); slash != std::string_view::npos) {
    if (const auto index = whole_number(rest.substr(slash + 1))) {
      selector.index = *index;
      rest = rest.substr(0, slash);
    }
  }
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
    selector.domain = rest.substr(at + 1);
    rest = rest.substr(0, at);
  }
  if (rest.empty())
    throw refusal("--filter-nvtx", text, "names no range", "RANGE[@DOMAIN][/INDEX], for example 'step 5'");
  selector.label = rest;
  return selector;
}

StepSelector parse_steps(std::string_view text) {
  const auto refuse = [&](std::string_view problem) {
    return refusal("--steps", text, problem, "FIRST:LAST, for example 10:20, 10: or 12");
  };
  const auto number = [&](std::string_view part) -> std::optional<std::int64_t> {
    if (part.empty()) return std::nullopt;
    const auto value = whole_number(part);
    if (!value) throw refuse(fmt::format("has '{}', which is no number of a step", part));
    return value;
  };
  const std::size_t colon = text.find(':');
  StepSelector steps;
  if (colon == std::string_view::npos) {
    steps.first = steps.last = number(text);
  } else {
    steps = {number(text.substr(0, colon)), number(text.substr(colon + 1))};
  }
  if (!steps.first && !steps.last) throw refuse("names no step");
  if (steps.first && steps.last && *steps.first > *steps.last) throw refuse("ends before it starts");
  return steps;
}

}  // namespace nsys_explain::analysis
