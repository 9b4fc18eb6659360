#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

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

/// The operations that one thread launched, by call start.
class ThreadLaunches {
 public:
  void add(const Launch& launch) { launches_.push_back(launch); }
  /// Sorts and builds the index; O(n log n). Nothing is added afterwards.
  void finish();
  std::span<const Launch> launches() const { return launches_; }

  /// Operations whose call began and ended within [start, end], both included, as `nsys stats` counts them.
  /// O(log n). `hint` is where the caller's previous range began: for ranges sorted by start it makes the search
  /// constant on average.
  Projection project(Nanoseconds start_ns, Nanoseconds end_ns, std::size_t& hint) const;

 private:
  struct Extent {
    Nanoseconds gpu_start_ns = 0, gpu_end_ns = 0, call_end_ns = 0;
  };
  static Extent join(const Extent& a, const Extent& b);

  std::vector<Launch> launches_;
  std::vector<Extent> tree_;  ///< bottom-up segment tree: leaves from launches_.size() on
};

struct DeviceLaunches {
  std::map<std::uint32_t, ThreadLaunches> threads;  ///< by thread id
  std::int64_t kernels_without_call = 0;
  Nanoseconds kernel_ns_without_call = 0;
};

DeviceLaunches collect_launches(const RankEvents& events);

/// The latest time of anything in the trace: where ranges that were never closed are taken to end, as `nsys stats`
/// does.
Nanoseconds last_time(const Trace& trace);

}  // namespace nsys_explain::analysis
