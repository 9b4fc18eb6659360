#pragma once

#include <algorithm>
#include <cmath>

#include "analysis/statistics/lag_correlation.hpp"
#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/launch_index.hpp"
#include "nsys_explain/model/run_map.hpp"
#include "nsys_explain/model/trace.hpp"

/// The events of one trace rank, and what its GPU did.
namespace nsys_explain::analysis {

/// What an analysis of one trace rank by itself looks at: everything its process recorded, and which of the process's
/// devices it is. Times are trace time. Lives only while the trace is in memory; results must not refer to it.
struct RankEvents {
  const Trace& trace;
  const ProcessTrace& process;
  const DeviceTrace& device;
  const LaunchIndex& launches;                  ///< of process.api_calls
  std::vector<bool> communication_kinds;        ///< by kernel kind of the device
  std::span<const TraceArrival> arrivals = {};  ///< the device's parts in collectives, in enter order
  std::span<const Interval> holes = {};         ///< recording_holes() of the process

  bool is_communication(const Kernel& kernel) const { return communication_kinds[kernel.kind]; }
};

/// When activities were launched, asked for by start. A stream is in order: what was recorded without its call lies
/// between launches of its stream, and is taken to be launched with the one before it. Where no later one has a call,
/// its own start stands for the launch.
///
///     launched at 10, (no call), 30; running 100 to 190, 190 to 250, 250 to 300:  the second was launched at 10
class StreamLaunches {
 public:
  using Stream = std::pair<std::uint32_t, std::uint32_t>;  ///< context and stream

  /// `activities`: those that will be asked for, by start.
  template <class Activities, class StreamOf>
  StreamLaunches(const LaunchIndex& launches, const Activities& activities, const StreamOf& stream_of)
      : launches_(launches) {
    for (const auto& activity : activities)
      if (launches_.number_of(activity.correlation_id, activity.start_ns) != LaunchIndex::no_call)
        of_stream_[stream_of(activity)].last_start_ns = activity.start_ns;
  }

  template <class Activity>
  Nanoseconds launched_ns(const Activity& activity, const Stream& stream) {
    Known& known = of_stream_[stream];
    if (const auto call = launches_.find(activity.correlation_id, activity.start_ns)) {
      known.launched_ns = known.launched_ns ? std::max(*known.launched_ns, call->start_ns) : call->start_ns;
      return call->start_ns;
    }
    return known.launched_ns && activity.start_ns < known.last_start_ns ? *known.launched_ns : activity.start_ns;
  }

 private:
  struct Known {
    std::optional<Nanoseconds> launched_ns;  ///< of the latest that has a call
    Nanoseconds last_start_ns = no_time;     ///< of the last one of all that has a call
  };
  const LaunchIndex& launches_;
  RunMap<Stream, Known> of_stream_;
};

/// Calls `use(kernel, launched_ns)` for the kernels of the device, by start.
template <class Use>
void for_each_launched_kernel(const RankEvents& events, const Use& use) {
  const auto stream_of = [&](const Kernel& kernel) {
    const KernelKind& kind = events.device.kind_of(kernel);
    return StreamLaunches::Stream{kind.context_id, kind.stream_id};
  };
  StreamLaunches times(events.launches, events.device.kernels, stream_of);
  for (const Kernel& kernel : events.device.kernels) use(kernel, times.launched_ns(kernel, stream_of(kernel)));
}

/// When the process ran on, and nothing was recorded: between two capture ranges. A silence of the host for a hundredth
/// of the recording is a hole where a call that stops or starts the profiler stands beside it, or where correlation
/// ids, which count all calls of the process, advance by ten times what they ever do between two calls that follow each
/// other. The hole is the longest part of the silence in which no GPU activity runs and no range begins, half of it at
/// least. Without these it is a pause of the program.
///
///     ids advance by 1 to 20 from call to call; 50 ms without a call, and by 500:  calls were not recorded
///     the same, and by 20:                                                        the program paused
std::vector<Interval> recording_holes(const Trace& trace, const ProcessTrace& process);

/// True where the two share time.
inline bool meets_any(std::span<const Interval> holes, const Interval& time) {
  return std::any_of(holes.begin(), holes.end(),
                     [&](const Interval& hole) { return hole.start_ns < time.end_ns && time.start_ns < hole.end_ns; });
}

// Everything that kept a device busy, in one order.

enum class ActivityKind : std::uint8_t { kernel, memory_operation, graph_launch };

struct GpuActivity {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint32_t correlation_id = 0;
  std::uint32_t context_id = 0;
  std::uint32_t stream_id = 0;
  ActivityKind kind = ActivityKind::kernel;
  std::size_t index = 0;  ///< in the device's vector of that kind
};

/// The activity with that number in the device's vector of its kind.
inline GpuActivity activity_at(const DeviceTrace& device, ActivityKind kind, std::size_t index) {
  switch (kind) {
    case ActivityKind::kernel: {
      const Kernel k = device.kernels[index];
      const KernelKind& of = device.kind_of(k);
      return {k.start_ns, k.end_ns, k.correlation_id, of.context_id, of.stream_id, kind, index};
    }
    case ActivityKind::memory_operation: {
      const MemoryOperation& m = device.memory_operations[index];
      return {m.start_ns, m.end_ns, m.correlation_id, m.context_id, m.stream_id, kind, index};
    }
    case ActivityKind::graph_launch:
      break;
  }
  const GraphLaunch& g = device.graph_launches[index];
  return {g.start_ns, g.end_ns, g.correlation_id, 0, g.stream_id, ActivityKind::graph_launch, index};
}

/// Calls `use(GpuActivity)` for kernels, copies, sets and graph launches by start, end and kind, without copying them
/// into one vector: a device can have millions.
template <class Use>
void for_each_gpu_activity(const DeviceTrace& device, const Use& use) {
  const Kernels& kernels = device.kernels;
  const std::vector<MemoryOperation>& operations = device.memory_operations;
  const std::vector<GraphLaunch>& graphs = device.graph_launches;
  std::size_t next_kernel = 0, next_operation = 0, next_graph = 0;
  // Kernels are by far the most: those up to the next other activity come in one run.
  const auto use_kernels_until = [&](Nanoseconds start_ns, Nanoseconds end_ns) {
    for (; next_kernel < kernels.size(); ++next_kernel) {
      const Kernel k = kernels[next_kernel];
      if (k.start_ns > start_ns || (k.start_ns == start_ns && k.end_ns > end_ns)) break;
      const KernelKind& kind = device.kind_of(k);
      use(GpuActivity{k.start_ns, k.end_ns, k.correlation_id, kind.context_id, kind.stream_id, ActivityKind::kernel,
                      next_kernel});
    }
  };
  while (next_operation < operations.size() || next_graph < graphs.size()) {
    const bool operation_is_next = next_graph == graphs.size() ||
                                   (next_operation < operations.size() &&
                                    std::tie(operations[next_operation].start_ns, operations[next_operation].end_ns) <=
                                        std::tie(graphs[next_graph].start_ns, graphs[next_graph].end_ns));
    if (operation_is_next) {
      const MemoryOperation& m = operations[next_operation];
      use_kernels_until(m.start_ns, m.end_ns);
      use(activity_at(device, ActivityKind::memory_operation, next_operation++));
    } else {
      const GraphLaunch& g = graphs[next_graph];
      use_kernels_until(g.start_ns, g.end_ns);
      use(activity_at(device, ActivityKind::graph_launch, next_graph++));
    }
  }
  constexpr auto never = std::numeric_limits<Nanoseconds>::max();
  use_kernels_until(never, never);
}

/// From the first start to the last end of GPU activity on the device; empty without any.
Interval gpu_window(const DeviceTrace& device);

/// From the first start to the last end of GPU activity on any device of the process; empty without any. What the host
/// does outside, such as setting up, costs the GPUs nothing.
Interval gpu_window(const ProcessTrace& process);

/// The part of [start_ns, end_ns) that lies in the window.
inline Nanoseconds within(const Interval& window, Nanoseconds start_ns, Nanoseconds end_ns) {
  return std::max<Nanoseconds>(0, std::min(window.end_ns, end_ns) - std::max(window.start_ns, start_ns));
}

/// The name that `nsys stats` gives a copy or set: "[CUDA memcpy Host-to-Device]", "[CUDA memset]".
std::string operation_label(const MemoryOperation& operation);

/// Name of an activity: of its kernel (demangled), copy, set or graph.
std::string activity_name(const Trace& trace, const DeviceTrace& device, const GpuActivity& activity);

/// Label of ENUM_CUDA_MEM_KIND: "Pageable", "Pinned", "Device", ...; "-" where it was not exported.
std::string_view memory_kind_name(std::int16_t kind);

/// Process-wide tables stand at one trace rank of the process only, so that sums over trace ranks count them once.
inline bool speaks_for_process(const ProcessTrace& process, const DeviceTrace& device) {
  return process.devices.empty() || &process.devices.front() == &device;
}

// The time of one device, cut up as its budget is.

/// Where kinds of activity overlap, time belongs to the first of these.
enum class GpuPart : std::uint8_t { compute, communication, copy, opaque_graph, idle };
inline constexpr std::size_t gpu_part_count = 5;

/// Calls `use(GpuPart, Interval)` for the time from the first start to the last end of GPU activity: ascending, without
/// gaps or overlaps, but for idle time that meets a hole of the recording. Keeps nothing of the events.
/// `communication_kinds`: by kernel kind of the device.
template <class Use>
void for_each_gpu_part(const DeviceTrace& device, const std::vector<bool>& communication_kinds, const Use& use,
                       std::span<const Interval> holes = {}) {
  bool any = false;
  Nanoseconds at_ns = 0;  // parts are told until here; what is busy later has been so from here on
  std::array<Nanoseconds, gpu_part_count - 1> busy_until_ns{};
  const auto advance = [&](Nanoseconds to_ns) {
    for (std::size_t part = 0; part < busy_until_ns.size() && at_ns < to_ns; ++part) {
      const Nanoseconds until_ns = std::min(busy_until_ns[part], to_ns);
      if (until_ns <= at_ns) continue;
      use(static_cast<GpuPart>(part), Interval{at_ns, until_ns});
      at_ns = until_ns;
    }
    if (at_ns < to_ns && !meets_any(holes, {at_ns, to_ns})) use(GpuPart::idle, Interval{at_ns, to_ns});
    at_ns = to_ns;
  };
  for_each_gpu_activity(device, [&](const GpuActivity& activity) {
    if (!any) {
      at_ns = activity.start_ns;
      busy_until_ns.fill(at_ns);
      any = true;
    }
    advance(activity.start_ns);
    GpuPart part = GpuPart::opaque_graph;
    if (activity.kind == ActivityKind::memory_operation) part = GpuPart::copy;
    if (activity.kind == ActivityKind::kernel) {
      part = communication_kinds[device.kernels[activity.index].kind] ? GpuPart::communication : GpuPart::compute;
    }
    Nanoseconds& until_ns = busy_until_ns[static_cast<std::size_t>(part)];
    until_ns = std::max(until_ns, activity.end_ns);
  });
  if (any) advance(*std::max_element(busy_until_ns.begin(), busy_until_ns.end()));
}

/// Kernels of one name, grid and block, in the middle.
struct ContendedKernels {
  StringIndex name = 0;  ///< demangled
  std::int64_t alone = 0, beside = 0;
  Nanoseconds alone_ns = 0, beside_ns = 0;  ///< lower medians of those alone, and all the time beside
  Nanoseconds time_beside_ns = 0;           ///< of all of them, also those that are beside in part

  Nanoseconds lost_ns() const {
    return beside_ns <= alone_ns ? 0 : time_beside_ns - time_beside_ns * alone_ns / beside_ns;
  }
};

/// Those of which four and more ran alone, and four and more beside collectives, by first occurrence.
std::vector<ContendedKernels> contended_kernels(const RankEvents& events);

/// What kernels of a trace rank take longer for collectives that run beside them: these hold multiprocessors and use
/// memory, be it while they wait. Kernels alike (name, grid, block) are compared alone and beside:
///
///     40 times alone 100 us each, 40 times beside 125 us each:  a fifth of the time beside is lost
class Contention {
 public:
  explicit Contention(const RankEvents& events);

  /// Of the time that kernels run beside collectives; 0 where nothing tells.
  double lost_share() const { return lost_share_; }
  /// Quick where it lies near that which was asked for before.
  Nanoseconds lost_within(Nanoseconds start_ns, Nanoseconds end_ns) {
    if (lost_share_ == 0) return 0;
    return std::llround(lost_share_ * static_cast<double>(beside_.within(start_ns, end_ns, near_)));
  }

 private:
  CoveredTime beside_;
  double lost_share_ = 0;
  std::size_t near_ = 0;
};

}  // namespace nsys_explain::analysis
