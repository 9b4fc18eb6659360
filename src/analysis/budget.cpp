#include "nsys_explain/analysis/budget.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {

GpuTimes split_gpu_time(const DeviceTrace& device, const std::vector<bool>& communication_kinds) {
  std::vector<Interval> compute, communication, copy, graph;
  for (const Kernel& kernel : device.kernels) {
    (communication_kinds[kernel.kind] ? communication : compute).push_back({kernel.start_ns, kernel.end_ns});
  }
  for (const MemoryOperation& operation : device.memory_operations)
    copy.push_back({operation.start_ns, operation.end_ns});
  for (const GraphLaunch& launch : device.graph_launches) graph.push_back({launch.start_ns, launch.end_ns});

  GpuTimes times;
  bool any = false;
  for (const auto* kind : {&compute, &communication, &copy, &graph}) {
    for (const Interval& interval : *kind) {
      times.window.start_ns = any ? std::min(times.window.start_ns, interval.start_ns) : interval.start_ns;
      times.window.end_ns = any ? std::max(times.window.end_ns, interval.end_ns) : interval.end_ns;
      any = true;
    }
  }
  const auto join = [](const std::vector<Interval>& a, const std::vector<Interval>& b) {
    std::vector<Interval> both;
    both.reserve(a.size() + b.size());
    std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both),
               [](const Interval& x, const Interval& y) { return x.start_ns < y.start_ns; });
    return merge_intervals(std::move(both));
  };
  communication = merge_intervals(std::move(communication));
  times.communication_ns = total_length(communication);
  times.compute = merge_intervals(std::move(compute));
  times.exposed_communication = subtract(communication, times.compute);
  std::vector<Interval> taken = join(times.compute, times.exposed_communication);
  times.copy = subtract(merge_intervals(std::move(copy)), taken);
  taken = join(taken, times.copy);
  times.opaque_graph = subtract(merge_intervals(std::move(graph)), taken);
  return times;
}

Budget compute_budget(const DeviceTrace& device, const std::vector<bool>& communication_kinds) {
  const GpuTimes times = split_gpu_time(device, communication_kinds);
  Budget budget;
  budget.window_start_ns = times.window.start_ns;
  budget.window_ns = times.window.end_ns - times.window.start_ns;
  budget.compute_ns = total_length(times.compute);
  budget.communication_ns = times.communication_ns;
  budget.exposed_communication_ns = total_length(times.exposed_communication);
  budget.overlapped_ns = budget.communication_ns - budget.exposed_communication_ns;
  budget.copy_ns = total_length(times.copy);
  budget.opaque_graph_ns = total_length(times.opaque_graph);
  budget.idle_ns =
      budget.window_ns - budget.compute_ns - budget.exposed_communication_ns - budget.copy_ns - budget.opaque_graph_ns;
  return budget;
}

}  // namespace nsys_explain::analysis
