#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "nsys_explain/model/trace.hpp"

/// Everything that kept a device busy, in one order.
namespace nsys_explain::analysis {

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

}  // namespace nsys_explain::analysis
