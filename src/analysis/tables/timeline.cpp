#include "analysis/tables/timeline.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "analysis/links/link_traffic.hpp"
#include "analysis/trace/gpu_activity.hpp"

namespace nsys_explain::analysis {
namespace {

/// Numbers names in the order in which they come.
class Names {
 public:
  explicit Names(std::vector<std::string>& names) : names_(names) {}
  std::uint32_t number(const std::string& name) {
    const auto [entry, is_new] = numbers_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (is_new) names_.push_back(name);
    return entry->second;
  }

 private:
  std::vector<std::string>& names_;
  std::map<std::string, std::uint32_t> numbers_;
};

/// The first lane of a stream that is free; lanes remember until when they are taken.
class Lanes {
 public:
  std::uint16_t take(std::uint32_t stream_id, Nanoseconds start_ns, Nanoseconds end_ns) {
    std::vector<Nanoseconds>& taken_until = streams_[stream_id];
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
  std::map<std::uint32_t, std::vector<Nanoseconds>> streams_;
};

TimelineKind kind_of(const RankEvents& events, const GpuActivity& activity) {
  if (activity.kind == ActivityKind::memory_operation) return TimelineKind::copy;
  if (activity.kind == ActivityKind::graph_launch) return TimelineKind::graph;
  return events.is_communication(events.device.kernels[activity.index]) ? TimelineKind::communication
                                                                        : TimelineKind::compute;
}

/// NVLink traffic, a value where it changes, and 0 where samples are lost.
void add_counters(const RankEvents& events, Names& names, std::vector<TimelineEvent>& timeline) {
  // What moves data is what the kernels tell; whose collective it was does not matter here.
  std::vector<Arrival> communication;
  for (const Kernel& kernel : events.device.kernels) {
    if (!events.is_communication(kernel)) continue;
    Arrival arrival;
    arrival.enter_ns = kernel.start_ns;
    arrival.exit_ns = kernel.end_ns;
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
      timeline.push_back({at_ns, at_ns, value, name, no_stream, -1, 0, TimelineKind::counter, 0});
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
}

}  // namespace

Timeline timeline_of(const RankEvents& events) {
  Timeline timeline;
  Names names(timeline.names);
  std::vector<std::uint32_t> kernel_names(events.trace.strings.size(), no_stream);
  Lanes lanes;
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
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
      std::uint32_t& known = kernel_names[events.device.kind_of(events.device.kernels[activity.index]).demangled_name];
      if (known == no_stream) known = names.number(activity_name(events.trace, events.device, activity));
      event.name = known;
    } else {
      event.name = names.number(activity_name(events.trace, events.device, activity));
    }
    event.lane = lanes.take(event.stream_id, event.start_ns, event.end_ns);
    timeline.events.push_back(event);
  });
  add_counters(events, names, timeline.events);
  std::stable_sort(timeline.events.begin(), timeline.events.end(), [](const TimelineEvent& a, const TimelineEvent& b) {
    return std::tuple(a.start_ns, a.end_ns, a.kind) < std::tuple(b.start_ns, b.end_ns, b.kind);
  });
  return timeline;
}

}  // namespace nsys_explain::analysis
