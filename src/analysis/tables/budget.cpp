#include "analysis/tables/budget.hpp"

#include <array>

#include "analysis/trace/gpu_parts.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {

Budget compute_budget(const DeviceTrace& device, const std::vector<bool>& communication_kinds) {
  std::array<Nanoseconds, gpu_part_count> parts_ns{};
  for_each_gpu_part(device, communication_kinds, [&](GpuPart part, const Interval& interval) {
    parts_ns[static_cast<std::size_t>(part)] += interval.end_ns - interval.start_ns;
  });
  const auto of = [&](GpuPart part) { return parts_ns[static_cast<std::size_t>(part)]; };
  UnionLength communication;
  for (const Kernel& kernel : device.kernels) {
    if (communication_kinds[kernel.kind]) communication.add({kernel.start_ns, kernel.end_ns});
  }
  const Interval window = gpu_window(device);
  Budget budget;
  budget.window_start_ns = window.start_ns;
  budget.window_ns = window.end_ns - window.start_ns;
  budget.compute_ns = of(GpuPart::compute);
  budget.communication_ns = communication.length_ns();
  budget.exposed_communication_ns = of(GpuPart::communication);
  budget.overlapped_ns = budget.communication_ns - budget.exposed_communication_ns;
  budget.copy_ns = of(GpuPart::copy);
  budget.opaque_graph_ns = of(GpuPart::opaque_graph);
  budget.idle_ns = of(GpuPart::idle);
  return budget;
}

}  // namespace nsys_explain::analysis
