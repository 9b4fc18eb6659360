#include "analysis/trace/gpu_activity.hpp"

#include <fmt/format.h>

namespace nsys_explain::analysis {
namespace {

constexpr auto copy_kinds = std::to_array<std::string_view>(
    {"Unknown", "Host-to-Device", "Device-to-Host", "Host-to-Array", "Array-to-Host", "Array-to-Array",
     "Array-to-Device", "Device-to-Array", "Device-to-Device", "Host-to-Host", "Peer-to-Peer", "Unified Host-to-Device",
     "Unified Device-to-Host", "Unified Device-to-Device"});

constexpr auto memory_kinds = std::to_array<std::string_view>(
    {"Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown"});

constexpr Interval nothing{std::numeric_limits<Nanoseconds>::max(), std::numeric_limits<Nanoseconds>::min()};

Interval window_or_nothing(const Interval& window) {
  return window.start_ns <= window.end_ns ? window : Interval{};
}

/// The window with what the device did. Its events are sorted by start.
Interval extended(Interval window, const DeviceTrace& device) {
  const auto extend = [&](const auto& events) {
    if (!events.empty()) window.start_ns = std::min(window.start_ns, events.front().start_ns);
    for (const auto& event : events) window.end_ns = std::max(window.end_ns, event.end_ns);
  };
  extend(device.kernels);
  extend(device.memory_operations);
  extend(device.graph_launches);
  return window;
}

}  // namespace

Interval gpu_window(const DeviceTrace& device) {
  return window_or_nothing(extended(nothing, device));
}

Interval gpu_window(const ProcessTrace& process) {
  Interval window = nothing;
  for (const DeviceTrace& device : process.devices) window = extended(window, device);
  return window_or_nothing(window);
}

std::string operation_label(const MemoryOperation& operation) {
  if (operation.is_set) return "[CUDA memset]";
  const auto kind = static_cast<std::size_t>(operation.copy_kind);
  return fmt::format("[CUDA memcpy {}]", kind < copy_kinds.size() ? copy_kinds[kind] : copy_kinds[0]);
}

std::string activity_name(const Trace& trace, const DeviceTrace& device, const GpuActivity& activity) {
  switch (activity.kind) {
    case ActivityKind::kernel:
      return trace.strings[device.kind_of(device.kernels[activity.index]).demangled_name];
    case ActivityKind::memory_operation:
      return operation_label(device.memory_operations[activity.index]);
    case ActivityKind::graph_launch:
      break;
  }
  return fmt::format("[CUDA graph {}]", device.graph_launches[activity.index].graph_id);
}

std::string_view memory_kind_name(std::int16_t kind) {
  return kind >= 0 && static_cast<std::size_t>(kind) < memory_kinds.size()
             ? memory_kinds[static_cast<std::size_t>(kind)]
             : "-";
}

}  // namespace nsys_explain::analysis
