#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>

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

/// Calls `use(GpuActivity)` for kernels, copies, sets and graph launches by start, end and kind, without copying them
/// into one vector: a device can have millions.
template <class Use>
void for_each_gpu_activity(const DeviceTrace& device, const Use& use) {
  constexpr auto never = std::numeric_limits<Nanoseconds>::max();
  std::array<std::size_t, 3> next{};
  const auto time_of = [&](std::size_t kind) -> std::tuple<Nanoseconds, Nanoseconds, std::size_t> {
    const std::size_t i = next[kind];
    if (kind == 0 && i < device.kernels.size()) return {device.kernels[i].start_ns, device.kernels[i].end_ns, kind};
    if (kind == 1 && i < device.memory_operations.size()) {
      return {device.memory_operations[i].start_ns, device.memory_operations[i].end_ns, kind};
    }
    if (kind == 2 && i < device.graph_launches.size()) {
      return {device.graph_launches[i].start_ns, device.graph_launches[i].end_ns, kind};
    }
    return {never, never, kind};
  };
  const std::size_t all = device.kernels.size() + device.memory_operations.size() + device.graph_launches.size();
  for (std::size_t done = 0; done < all; ++done) {
    const auto [start_ns, end_ns, kind] = std::min({time_of(0), time_of(1), time_of(2)});
    const std::size_t index = next[kind]++;
    GpuActivity activity{start_ns, end_ns, 0, 0, 0, static_cast<ActivityKind>(kind), index};
    if (activity.kind == ActivityKind::kernel) {
      const Kernel& kernel = device.kernels[index];
      activity.correlation_id = kernel.correlation_id;
      const KernelKind& kernel_kind = device.kind_of(kernel);
      activity.context_id = kernel_kind.context_id;
      activity.stream_id = kernel_kind.stream_id;
    } else if (activity.kind == ActivityKind::memory_operation) {
      const MemoryOperation& operation = device.memory_operations[index];
      activity.correlation_id = operation.correlation_id;
      activity.context_id = operation.context_id;
      activity.stream_id = operation.stream_id;
    } else {
      activity.correlation_id = device.graph_launches[index].correlation_id;
      activity.stream_id = device.graph_launches[index].stream_id;
    }
    use(activity);
  }
}

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
