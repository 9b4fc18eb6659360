#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "nsys_explain/analysis/gpu_activity.hpp"
#include "nsys_explain/analysis/rank_events.hpp"

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
  /// Both must outlive the object.
  ThreadLaunches(const ProcessTrace& process, const DeviceTrace& device) : process_(process), device_(device) {}

  void reserve(std::size_t launches) { launches_.reserve(launches); }
  void add(std::uint32_t call, const GpuActivity& activity);
  /// Sorts and builds the index; linear where calls ran in the order of their GPU work. Nothing is added afterwards.
  void finish();

  std::size_t size() const { return launches_.size(); }
  Launch operator[](std::size_t i) const;

  /// Operations whose call began and ended within [start, end], both included, as `nsys stats` counts them.
  /// O(log n). `hint` is where the caller's previous range began: for ranges sorted by start it makes the search
  /// constant on average.
  Projection project(Nanoseconds start_ns, Nanoseconds end_ns, std::size_t& hint) const;

 private:
  struct Entry {
    std::uint32_t call;
    std::uint32_t activity;  ///< index of the activity times 4 plus ActivityKind
  };
  struct Extent {
    Nanoseconds gpu_start_ns, gpu_end_ns, call_end_ns;
  };
  static Extent join(const Extent& a, const Extent& b);
  Nanoseconds call_start_ns(std::size_t i) const { return process_.api_calls[launches_[i].call].start_ns; }
  Nanoseconds call_end_ns(std::size_t i) const { return process_.api_calls[launches_[i].call].end_ns; }
  Extent extent_of(std::size_t first, std::size_t last) const;

  static constexpr std::size_t block = 32;  ///< launches that one leaf of the tree stands for
  const ProcessTrace& process_;
  const DeviceTrace& device_;
  std::vector<Entry> launches_;
  std::vector<Extent> tree_;  ///< bottom-up segment tree over whole blocks: leaves from their number on
};

/// Here, since analyses ask for millions in turn.
inline Launch ThreadLaunches::operator[](std::size_t i) const {
  const Entry& entry = launches_[i];
  const ApiCall& call = process_.api_calls[entry.call];
  const auto of = [&](const auto& activity, std::int32_t kernel) {
    return Launch{call.start_ns, call.end_ns, activity.start_ns, activity.end_ns, kernel};
  };
  const std::uint32_t index = entry.activity >> 2;
  switch (static_cast<ActivityKind>(entry.activity & 3)) {
    case ActivityKind::kernel:
      return of(device_.kernels[index], static_cast<std::int32_t>(index));
    case ActivityKind::memory_operation:
      return of(device_.memory_operations[index], -1);
    case ActivityKind::graph_launch:
      break;
  }
  return of(device_.graph_launches[index], -1);
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

}  // namespace nsys_explain::analysis
