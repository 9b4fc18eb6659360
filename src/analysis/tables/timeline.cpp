#include "analysis/tables/tables.hpp"

#include <numeric>

#include <fmt/format.h>

#include "analysis/links/links.hpp"

namespace nsys_explain::analysis {
namespace {

/// Numbers names in the order in which they come.
class Names {
 public:
  explicit Names(std::vector<std::string>& names) : names_(names) {
    for (const std::string& name : names_) numbers_.emplace(name, static_cast<std::uint32_t>(numbers_.size()));
  }
  std::uint32_t number(const std::string& name) {
    const auto [entry, is_new] = numbers_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (is_new) names_.push_back(name);
    return entry->second;
  }

 private:
  std::vector<std::string>& names_;
  std::map<std::string, std::uint32_t> numbers_;
};

/// The first lane of a track that is free; lanes remember until when they are taken.
class Lanes {
 public:
  std::uint16_t take(std::uint32_t track_id, Nanoseconds start_ns, Nanoseconds end_ns) {
    std::vector<Nanoseconds>& taken_until = tracks_[track_id];
    const auto free = std::find_if(taken_until.begin(), taken_until.end(),
                                   [&](Nanoseconds until_ns) { return until_ns <= start_ns; });
    const auto lane = static_cast<std::uint16_t>(free - taken_until.begin());
    if (free == taken_until.end()) {
      taken_until.push_back(end_ns);
    } else {
      *free = end_ns;
    }
    return lane;
  }

 private:
  std::map<std::uint32_t, std::vector<Nanoseconds>> tracks_;
};

TimelineKind kind_of(const RankEvents& events, const GpuActivity& activity) {
  if (activity.kind == ActivityKind::memory_operation) return TimelineKind::copy;
  if (activity.kind == ActivityKind::graph_launch) return TimelineKind::graph;
  return events.is_communication(events.device.kernels[activity.index]) ? TimelineKind::communication
                                                                        : TimelineKind::compute;
}

/// Of one kernel or operation, as TimelineEvent::arguments; empty: none.
std::string arguments_of(const DeviceTrace& device, const GpuActivity& activity) {
  if (activity.kind == ActivityKind::memory_operation)
    return fmt::format("bytes={}", device.memory_operations[activity.index].bytes);
  if (activity.kind == ActivityKind::graph_launch)
    return fmt::format("graph={}", device.graph_launches[activity.index].graph_id);
  const KernelKind& kind = device.kind_of(device.kernels[activity.index]);
  return fmt::format("grid={}x{}x{} block={}x{}x{} registers={} static_shared_bytes={} dynamic_shared_bytes={}",
                     kind.grid_x, kind.grid_y, kind.grid_z, kind.block_x, kind.block_y, kind.block_z,
                     kind.registers_per_thread, kind.static_shared_bytes, kind.dynamic_shared_bytes);
}

bool overlaps(const Interval& window, Nanoseconds start_ns, Nanoseconds end_ns) {
  return end_ns >= window.start_ns && start_ns < window.end_ns;
}

/// The threads that launched work onto the device.
std::set<std::uint32_t> launching_threads(const RankEvents& events, const Interval& window) {
  const Interval known = shown_by_timeline(window);
  std::set<std::uint32_t> threads;
  for (const Kernel& kernel : events.device.kernels) {
    if (!overlaps(window, kernel.start_ns, kernel.end_ns)) continue;
    const auto call = events.launches.find(kernel.correlation_id, kernel.start_ns);
    if (call && call->start_ns <= kernel.start_ns && overlaps(known, call->start_ns, call->end_ns))
      threads.insert(call->thread_id);
  }
  return threads;
}

/// What host threads did, of one kind: the outer of two nested ones is on the lower lane.
class HostEvents {
 public:
  HostEvents(TimelineKind kind, const Interval& window, const std::set<std::uint32_t>& threads)
      : kind_(kind), window_(window), threads_(threads) {}

  template <class Event, class NumberOf>
  void add(const Event& event, const NumberOf& number_of_name) {
    if (event.end_ns == no_time || !threads_.contains(event.thread_id)) return;
    if (!overlaps(window_, event.start_ns, event.end_ns)) return;
    events_.push_back({event.start_ns, event.end_ns, 0, number_of_name(), event.thread_id, -1, 0, kind_, 0});
    if constexpr (requires { event.correlation_id; }) events_.back().launch = event.correlation_id;
  }
  void move_to(std::vector<TimelineEvent>& timeline) {
    std::stable_sort(events_.begin(), events_.end(), [](const TimelineEvent& a, const TimelineEvent& b) {
      return std::tuple(a.start_ns, -a.end_ns) < std::tuple(b.start_ns, -b.end_ns);
    });
    Lanes lanes;
    for (TimelineEvent& event : events_) {
      event.lane = lanes.take(event.track_id, event.start_ns, event.end_ns);
      timeline.push_back(event);
    }
  }

 private:
  TimelineKind kind_;
  const Interval& window_;
  const std::set<std::uint32_t>& threads_;
  std::vector<TimelineEvent> events_;
};

/// NVTX ranges and calls of the threads that launch.
void add_host_events(const RankEvents& events, const Interval& window, Names& names,
                     std::vector<TimelineEvent>& timeline) {
  const std::set<std::uint32_t> threads = launching_threads(events, window);
  std::vector<std::uint32_t> known(events.trace.strings.size(), no_stream);
  const auto named = [&](StringIndex index) {
    return [&, index] {
      if (known[index] == no_stream) known[index] = names.number(events.trace.strings[index]);
      return known[index];
    };
  };
  HostEvents ranges(TimelineKind::range, window, threads), calls(TimelineKind::call, window, threads);
  for (const NvtxRange& range : events.process.nvtx_ranges) ranges.add(range, named(range.text));
  for (const ApiCall& call : events.process.api_calls) calls.add(call, named(call.name));
  for (const OsCall& call : events.process.os_calls)
    if (!call.is_nested) calls.add(call, named(call.name));
  ranges.move_to(timeline);
  calls.move_to(timeline);
}

void add_gpu_events(const RankEvents& events, const Interval& window, Names& names,
                    std::vector<TimelineEvent>& timeline) {
  std::vector<std::uint32_t> kernel_names(events.trace.strings.size(), no_stream),
      kernel_arguments(events.device.kernel_kinds.size(), TimelineEvent::no_arguments);
  Lanes lanes;
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
    if (!overlaps(window, activity.start_ns, activity.end_ns)) return;
    TimelineEvent event{activity.start_ns,
                        std::max(activity.start_ns, activity.end_ns),
                        0,
                        0,
                        activity.stream_id,
                        -1,
                        0,
                        kind_of(events, activity),
                        0};
    if (activity.kind == ActivityKind::kernel) {
      const std::uint32_t kind = events.device.kernels[activity.index].kind;
      std::uint32_t& known = kernel_names[events.device.kernel_kinds[kind].demangled_name];
      if (known == no_stream) known = names.number(activity_name(events.trace, events.device, activity));
      event.name = known;
      std::uint32_t& arguments = kernel_arguments[kind];
      if (arguments == TimelineEvent::no_arguments) arguments = names.number(arguments_of(events.device, activity));
      event.arguments = arguments;
    } else {
      event.name = names.number(activity_name(events.trace, events.device, activity));
      event.arguments = names.number(arguments_of(events.device, activity));
    }
    event.launch = activity.correlation_id;
    event.lane = lanes.take(event.track_id, event.start_ns, event.end_ns);
    timeline.push_back(event);
  });
}

/// Leaves the launches of which both ends are there: calls that launched nothing, and what no call is known of, lose
/// theirs.
void keep_whole_launches(std::vector<TimelineEvent>& events) {
  std::vector<std::uint32_t> calls, launched;
  for (const TimelineEvent& event : events)
    (event.kind == TimelineKind::call ? calls : launched).push_back(event.launch);
  std::sort(calls.begin(), calls.end());
  std::sort(launched.begin(), launched.end());
  for (TimelineEvent& event : events) {
    const auto is_in = [&](const auto& some) { return std::binary_search(some.begin(), some.end(), event.launch); };
    if (!is_in(calls) || !is_in(launched)) event.launch = 0;
  }
}

void sort_events(Timeline& timeline) {
  std::stable_sort(timeline.events.begin(), timeline.events.end(), [](const TimelineEvent& a, const TimelineEvent& b) {
    return std::tuple(a.start_ns, a.end_ns, a.kind) < std::tuple(b.start_ns, b.end_ns, b.kind);
  });
}

}  // namespace

Interval shown_by_timeline(const Interval& window) {
  Nanoseconds length_ns = 0, start_ns = 0;
  const bool is_all = __builtin_sub_overflow(window.end_ns, window.start_ns, &length_ns) ||
                      __builtin_sub_overflow(window.start_ns, length_ns, &start_ns);
  return is_all ? window : Interval{start_ns, window.end_ns};
}

Timeline timeline_of(const RankEvents& events, const Interval& window) {
  Timeline timeline;
  Names names(timeline.names);
  add_gpu_events(events, window, names, timeline.events);
  add_host_events(events, window, names, timeline.events);
  keep_whole_launches(timeline.events);
  sort_events(timeline);
  return timeline;
}

void add_link_traffic(const RankEvents& events, Timeline& timeline) {
  Names names(timeline.names);
  // What moves data is what the kernels tell; whose collective it was does not matter here.
  std::vector<TraceArrival> communication;
  for (const Kernel& kernel : events.device.kernels) {
    if (!events.is_communication(kernel)) continue;
    TraceArrival arrival;
    arrival.enter = TraceTime(kernel.start_ns);
    arrival.exit = TraceTime(kernel.end_ns);
    communication.push_back(arrival);
  }
  RankEvents with_arrivals = events;
  with_arrivals.arrivals = communication;
  for (const LinkSeries& link : nvlink_series(with_arrivals)) {
    const std::uint32_t name = names.number(std::string(link.metric) + " (%)");
    double shown = -1;
    Nanoseconds known_until_ns = 0;
    const auto show = [&](Nanoseconds at_ns, double value) {
      if (value == shown) return;
      timeline.events.push_back({at_ns, at_ns, value, name, no_stream, -1, 0, TimelineKind::counter, 0});
      shown = value;
    };
    for (std::size_t i = 0; i < link.series.periods.size(); ++i) {
      const Interval& period = link.series.periods[i];
      if (i > 0 && period.start_ns > known_until_ns) show(known_until_ns, 0);
      show(period.start_ns, static_cast<double>(link.series.values[i]));
      known_until_ns = period.end_ns;
    }
    if (!link.series.periods.empty()) show(known_until_ns, 0);
  }
  sort_events(timeline);
}

std::int64_t thin_out(std::vector<TimelineEvent>& events, Nanoseconds at_ns, std::size_t most) {
  if (events.size() <= most) return 0;
  const auto distance_ns = [&](const TimelineEvent& event) {
    return std::max({event.start_ns - at_ns, at_ns - event.end_ns, Nanoseconds{0}});
  };
  std::vector<std::size_t> order(events.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return distance_ns(events[a]) < distance_ns(events[b]); });
  std::stable_sort(order.begin() + static_cast<std::ptrdiff_t>(most / 2), order.end(),
                   [&](std::size_t a, std::size_t b) {
                     return events[a].end_ns - events[a].start_ns > events[b].end_ns - events[b].start_ns;
                   });
  const auto left_out = static_cast<std::int64_t>(order.size() - most);
  order.resize(most);
  std::sort(order.begin(), order.end());
  std::vector<TimelineEvent> kept;
  for (const std::size_t number : order) kept.push_back(events[number]);
  events = std::move(kept);
  return left_out;
}

}  // namespace nsys_explain::analysis
