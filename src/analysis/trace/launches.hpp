#pragma once

#include <map>
#include <memory_resource>

#include "analysis/trace/rank_events.hpp"

/// Which GPU work of a device was launched when, on which host thread: what ties NVTX ranges to the GPU.
namespace nsys_explain::analysis {

/// One GPU operation (kernel, copy, set, graph launch) with the call that launched it.
struct Launch {
  Nanoseconds call_start_ns = 0;
  Nanoseconds call_end_ns = 0;
  Nanoseconds gpu_start_ns = 0;
  Nanoseconds gpu_end_ns = 0;
  std::int32_t kernel = -1;  ///< index into the device's kernels; -1: not a kernel
};

/// GPU operations between the first start and the last end of those launched within a span of host time.
struct Projection {
  std::int64_t operations = 0;
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;  ///< gaps between the operations included
};

/// The operations that one thread launched, by call. Keeps numbers of events, not the events: a device has millions.
class ThreadLaunches {
 public:
  /// `events` must outlive the object.
  explicit ThreadLaunches(const RankEvents& events)
      : calls_(events.process.api_calls), device_(events.device), index_(events.launches) {}

  void reserve(std::size_t launches) { added_.reserve(launches); }
  /// `call`: what the index says of it; not no_call.
  void add(std::uint32_t call, const GpuActivity& activity);
  /// Sorts and builds the index; linear where calls ran in the order of their GPU work. Nothing is added afterwards.
  void finish();

  std::size_t size() const { return launches_.size(); }
  Launch operator[](std::size_t i) const;
  /// How long its operation took.
  Nanoseconds gpu_ns(std::size_t i) const;

  /// Operations whose call began and ended within [start, end], both included, as `nsys stats` counts them.
  /// O(log n). `hint` is where the caller's previous range began: for ranges sorted by start it makes the search
  /// constant on average.
  Projection project(Nanoseconds start_ns, Nanoseconds end_ns, std::size_t& hint) const;

 private:
  struct Extent {
    Nanoseconds gpu_start_ns, gpu_end_ns, call_end_ns;
  };
  static Extent join(const Extent& a, const Extent& b);
  /// Calls `use(activity, kernel)` with the kernel, copy or graph that a number in `launches_` stands for.
  template <class Use>
  auto with_activity(std::uint32_t number, const Use& use) const;
  std::uint32_t call_of(std::uint32_t number) const;
  ApiCall call(std::size_t i) const { return calls_[call_of(launches_[i])]; }
  /// Of those in [first, last) whose calls lie within the range, one by one.
  Projection project_each(std::size_t first, std::size_t last, Nanoseconds end_ns) const;
  Extent extent_of(std::size_t first, std::size_t last) const;

  static constexpr std::size_t block = 128;  ///< launches that one leaf of the tree stands for
  const ApiCalls& calls_;
  const DeviceTrace& device_;
  const LaunchIndex& index_;
  std::pmr::vector<std::uint32_t> added_;  ///< until finish(): index of the activity times 4 plus ActivityKind
  std::uint32_t latest_call_ = 0;          ///< of those added
  bool in_order_ = true;                   ///< as they were added
  NearbyNumbers launches_;                 ///< the same, sorted by call
  std::vector<Extent> tree_;               ///< bottom-up segment tree over whole blocks: leaves from their number on
};

// Here, since analyses ask for millions in turn.

template <class Use>
auto ThreadLaunches::with_activity(std::uint32_t number, const Use& use) const {
  const std::uint32_t index = number >> 2;
  switch (static_cast<ActivityKind>(number & 3)) {
    case ActivityKind::kernel:
      return use(device_.kernels[index], static_cast<std::int32_t>(index));
    case ActivityKind::memory_operation:
      return use(device_.memory_operations[index], -1);
    case ActivityKind::graph_launch:
      break;
  }
  return use(device_.graph_launches[index], -1);
}

inline std::uint32_t ThreadLaunches::call_of(std::uint32_t number) const {
  return with_activity(number, [&](const auto& activity, std::int32_t) {
    return index_.number_of(activity.correlation_id, activity.start_ns);
  });
}

inline Launch ThreadLaunches::operator[](std::size_t i) const {
  return with_activity(launches_[i], [&](const auto& activity, std::int32_t kernel) {
    const ApiCall call = calls_[index_.number_of(activity.correlation_id, activity.start_ns)];
    return Launch{call.start_ns, call.end_ns, activity.start_ns, activity.end_ns, kernel};
  });
}

inline Nanoseconds ThreadLaunches::gpu_ns(std::size_t i) const {
  return with_activity(launches_[i],
                       [](const auto& activity, std::int32_t) { return activity.end_ns - activity.start_ns; });
}

struct DeviceLaunches {
  std::map<std::uint32_t, ThreadLaunches> threads;  ///< by thread id
  std::int64_t kernels_without_call = 0;
  Nanoseconds kernel_ns_without_call = 0;
};

/// Holds references into `events`.
DeviceLaunches collect_launches(const RankEvents& events);

/// The latest time of anything in the trace: where ranges that were never closed are taken to end, as `nsys stats`
/// does.
Nanoseconds last_time(const Trace& trace);

/// When the host launched a kernel; its own start where the call is not in the trace.
inline Nanoseconds launch_time_ns(const RankEvents& events, const Kernel& kernel) {
  const std::uint32_t call = events.launches.number_of(kernel.correlation_id, kernel.start_ns);
  return call == LaunchIndex::no_call ? kernel.start_ns : events.process.api_calls[call].start_ns;
}

/// What the host launched between two communication kernels: the program's work for the second one.
struct LaunchSegment {
  Nanoseconds start_ns = 0;  ///< launch of the previous communication kernel; of the first kernel, where there is none
  Nanoseconds end_ns = 0;    ///< launch of this one
  std::span<const std::uint32_t> kernels;  ///< compute kernels by number, in launch order; until `use` returns
};

/// Calls `use(communication kernel, what was launched before it)` for every communication kernel of the device in the
/// order in which kernels were launched, which is the same on every rank that runs the same program, while the order in
/// which they run depends on who waits for whom.
void for_each_launch_segment(const RankEvents& events,
                             const std::function<void(const Kernel&, const LaunchSegment&)>& use);

/// By kernel kind of the device: 64-bit hash of name, grid and block.
std::vector<std::uint64_t> hash_kernel_kinds(const RankEvents& events);

}  // namespace nsys_explain::analysis
