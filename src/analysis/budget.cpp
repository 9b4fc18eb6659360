#include "nsys_explain/analysis/budget.hpp"

#include <algorithm>
#include <vector>

#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {

Budget compute_budget(const DeviceTrace& device, const IsCommunication& is_communication) {
  std::vector<Interval> compute, communication, copy, graph;
  for (const Kernel& kernel : device.kernels) {
    (is_communication(kernel) ? communication : compute).push_back({kernel.start_ns, kernel.end_ns});
  }
  for (const MemoryOperation& operation : device.memory_operations)
    copy.push_back({operation.start_ns, operation.end_ns});
  for (const GraphLaunch& launch : device.graph_launches) graph.push_back({launch.start_ns, launch.end_ns});

  Budget budget;
  bool any = false;
  Interval window;
  for (const auto* kind : {&compute, &communication, &copy, &graph}) {
    for (const Interval& interval : *kind) {
      window.start_ns = any ? std::min(window.start_ns, interval.start_ns) : interval.start_ns;
      window.end_ns = any ? std::max(window.end_ns, interval.end_ns) : interval.end_ns;
      any = true;
    }
  }
  if (!any) return budget;

  compute = merge_intervals(std::move(compute));
  communication = merge_intervals(std::move(communication));
  copy = merge_intervals(std::move(copy));
  graph = merge_intervals(std::move(graph));
  const std::vector<Interval> exposed = subtract(communication, compute);
  std::vector<Interval> kernels = compute;
  kernels.insert(kernels.end(), exposed.begin(), exposed.end());
  kernels = merge_intervals(std::move(kernels));
  const std::vector<Interval> copy_alone = subtract(copy, kernels);
  std::vector<Interval> seen = kernels;
  seen.insert(seen.end(), copy_alone.begin(), copy_alone.end());
  seen = merge_intervals(std::move(seen));

  budget.window_start_ns = window.start_ns;
  budget.window_ns = window.end_ns - window.start_ns;
  budget.compute_ns = total_length(compute);
  budget.communication_ns = total_length(communication);
  budget.exposed_communication_ns = total_length(exposed);
  budget.overlapped_ns = budget.communication_ns - budget.exposed_communication_ns;
  budget.copy_ns = total_length(copy_alone);
  budget.opaque_graph_ns = total_length(subtract(graph, seen));
  budget.idle_ns =
      budget.window_ns - budget.compute_ns - budget.exposed_communication_ns - budget.copy_ns - budget.opaque_graph_ns;
  return budget;
}

}  // namespace nsys_explain::analysis
