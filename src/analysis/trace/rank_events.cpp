#include "analysis/trace/rank_events.hpp"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/intervals.hpp"

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

namespace {

std::vector<Interval> communication_of(const RankEvents& events) {
  std::vector<Interval> communication;
  for (const Kernel& kernel : events.device.kernels)
    if (events.is_communication(kernel)) communication.push_back({kernel.start_ns, kernel.end_ns});
  return merge_intervals(std::move(communication));
}

/// Durations of kernels alike.
struct Durations {
  StringIndex name = 0;
  std::vector<Nanoseconds> alone_ns, beside_ns;
  Nanoseconds time_beside_ns = 0;
};

/// By kernel kind: equal where name, grid and block are.
std::vector<std::size_t> families_of(const DeviceTrace& device, std::size_t& count) {
  std::map<std::tuple<StringIndex, std::array<std::int32_t, 6>>, std::size_t> numbers;
  std::vector<std::size_t> family_of_kind;
  for (const KernelKind& kind : device.kernel_kinds) {
    const std::array<std::int32_t, 6> shape{kind.grid_x,  kind.grid_y,  kind.grid_z,
                                            kind.block_x, kind.block_y, kind.block_z};
    family_of_kind.push_back(numbers.try_emplace({kind.demangled_name, shape}, numbers.size()).first->second);
  }
  count = numbers.size();
  return family_of_kind;
}

std::vector<ContendedKernels> compare_kernels(const RankEvents& events, const CoveredTime& beside) {
  constexpr std::size_t enough = 4;  // of a family, alone and beside: fewer make no median
  std::size_t count = 0;
  const std::vector<std::size_t> family_of_kind = families_of(events.device, count);
  std::vector<Durations> families(count);
  std::size_t near = 0;
  for (const Kernel& kernel : events.device.kernels) {
    if (events.is_communication(kernel)) continue;
    const Nanoseconds duration_ns = kernel.end_ns - kernel.start_ns,
                      beside_ns = beside.within(kernel.start_ns, kernel.end_ns, near);
    Durations& family = families[family_of_kind[kernel.kind]];
    family.name = events.device.kernel_kinds[kernel.kind].demangled_name;
    family.time_beside_ns += beside_ns;
    if (beside_ns == 0) family.alone_ns.push_back(duration_ns);
    if (beside_ns > 0 && beside_ns == duration_ns) family.beside_ns.push_back(duration_ns);
  }
  std::vector<ContendedKernels> compared;
  for (Durations& family : families) {
    if (family.alone_ns.size() < enough || family.beside_ns.size() < enough) continue;
    compared.push_back({.name = family.name,
                        .alone = static_cast<std::int64_t>(family.alone_ns.size()),
                        .beside = static_cast<std::int64_t>(family.beside_ns.size()),
                        .alone_ns = lower_median(family.alone_ns),
                        .beside_ns = lower_median(family.beside_ns),
                        .time_beside_ns = family.time_beside_ns});
  }
  return compared;
}

double lost_share_of(const std::vector<ContendedKernels>& compared) {
  double alone_ns = 0, beside_ns = 0;  // of as many kernels
  for (const ContendedKernels& kernels : compared) {
    alone_ns += static_cast<double>(kernels.beside * kernels.alone_ns);
    beside_ns += static_cast<double>(kernels.beside * kernels.beside_ns);
  }
  return beside_ns > alone_ns ? 1 - alone_ns / beside_ns : 0;
}

}  // namespace

std::vector<ContendedKernels> contended_kernels(const RankEvents& events) {
  return compare_kernels(events, CoveredTime(communication_of(events)));
}

Contention::Contention(const RankEvents& events)
    : beside_(communication_of(events)), lost_share_(lost_share_of(compare_kernels(events, beside_))) {}

}  // namespace nsys_explain::analysis
