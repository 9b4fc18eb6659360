#include "analysis/tables/shared_gpus.hpp"

#include <algorithm>
#include <map>

#include "analysis/statistics/statistics.hpp"
#include "model/schema/gpu.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {
namespace {

SharedGpu tell_shared_gpu(std::int32_t device_id, const std::vector<const DeviceTrace*>& of_processes) {
  std::vector<Interval> busy;
  CompactValues durations;
  for (const DeviceTrace* device : of_processes) {
    for (const Kernel& kernel : device->kernels) {
      busy.push_back({kernel.start_ns, kernel.end_ns});
      durations.push_back(kernel.end_ns - kernel.start_ns);
    }
  }
  busy = merge_intervals(std::move(busy));
  const Nanoseconds window_ns = busy.back().end_ns - busy.front().start_ns;
  Nanoseconds busy_ns = 0, longest_gap_ns = 0;
  for (std::size_t i = 0; i < busy.size(); ++i) {
    busy_ns += busy[i].end_ns - busy[i].start_ns;
    if (i > 0) longest_gap_ns = std::max(longest_gap_ns, busy[i].start_ns - busy[i - 1].end_ns);
  }
  const Statistics s = durations.summarise();
  SharedGpu gpu{device_id, shared_gpus_table()};
  RowWriter row(gpu.table);
  row << std::int64_t{device_id} << static_cast<std::int64_t>(of_processes.size()) << s.count << window_ns
      << (window_ns > 0 ? static_cast<double>(s.count) * 1e9 / static_cast<double>(window_ns) : 0.0) << s.median
      << s.p90 << s.p99 << busy_ns << window_ns - busy_ns << percent(window_ns - busy_ns, window_ns) << longest_gap_ns;
  return gpu;
}

}  // namespace

Table shared_gpus_table() {
  return make_table(schema::shared_gpus);
}

std::vector<SharedGpu> shared_gpus(const Trace& trace) {
  std::map<std::int32_t, std::vector<const DeviceTrace*>> processes;
  for (const ProcessTrace& process : trace.processes) {
    for (const DeviceTrace& device : process.devices)
      if (!device.kernels.empty()) processes[device.device_id].push_back(&device);
  }
  std::vector<SharedGpu> gpus;
  for (const auto& [device_id, devices] : processes)
    if (devices.size() > 1) gpus.push_back(tell_shared_gpu(device_id, devices));
  return gpus;
}

}  // namespace nsys_explain::analysis
