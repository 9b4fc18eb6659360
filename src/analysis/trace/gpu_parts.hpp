#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/trace/gpu_activity.hpp"

/// The time of one device, cut up as its budget is.
namespace nsys_explain::analysis {

/// Where kinds of activity overlap, time belongs to the first of these.
enum class GpuPart : std::uint8_t { compute, communication, copy, opaque_graph, idle };
inline constexpr std::size_t gpu_part_count = 5;

/// Calls `use(GpuPart, Interval)` for the time from the first start to the last end of GPU activity: ascending, without
/// gaps or overlaps. Keeps nothing of the events. `communication_kinds`: by kernel kind of the device.
template <class Use>
void for_each_gpu_part(const DeviceTrace& device, const std::vector<bool>& communication_kinds, const Use& use) {
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
    if (at_ns < to_ns) use(GpuPart::idle, Interval{at_ns, to_ns});
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

}  // namespace nsys_explain::analysis
