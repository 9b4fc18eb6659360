#include "nsys_explain/analysis/launches.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "nsys_explain/analysis/gpu_activity.hpp"
#include "nsys_explain/model/sorting.hpp"

namespace nsys_explain::analysis {

ThreadLaunches::Extent ThreadLaunches::join(const Extent& a, const Extent& b) {
  return {std::min(a.gpu_start_ns, b.gpu_start_ns), std::max(a.gpu_end_ns, b.gpu_end_ns),
          std::max(a.call_end_ns, b.call_end_ns)};
}

void ThreadLaunches::finish() {
  const auto earlier = [](const Launch& a, const Launch& b) {
    return std::tie(a.call_start_ns, a.call_end_ns, a.gpu_start_ns, a.gpu_end_ns, a.kernel) <
           std::tie(b.call_start_ns, b.call_end_ns, b.gpu_start_ns, b.gpu_end_ns, b.kernel);
  };
  sort_nearly_sorted(launches_, earlier);
  const std::size_t n = launches_.size();
  tree_.resize(2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    tree_[n + i] = {launches_[i].gpu_start_ns, launches_[i].gpu_end_ns, launches_[i].call_end_ns};
  }
  for (std::size_t i = n; i-- > 1;) tree_[i] = join(tree_[2 * i], tree_[2 * i + 1]);
}

Projection ThreadLaunches::project(Nanoseconds start_ns, Nanoseconds end_ns, std::size_t& hint) const {
  const std::size_t n = launches_.size();
  std::size_t first = hint;
  if (first > n || (first > 0 && launches_[first - 1].call_start_ns >= start_ns)) first = 0;  // ranges out of order
  while (first < n && launches_[first].call_start_ns < start_ns) ++first;
  hint = first;
  // Galloping: most ranges are short.
  std::size_t step = 1;
  while (first + step < n && launches_[first + step].call_start_ns <= end_ns) step *= 2;
  std::size_t last = static_cast<std::size_t>(
      std::upper_bound(launches_.begin() + static_cast<std::ptrdiff_t>(std::min(first + step / 2, n)),
                       launches_.begin() + static_cast<std::ptrdiff_t>(std::min(first + step, n)), end_ns,
                       [](Nanoseconds t, const Launch& launch) { return t < launch.call_start_ns; }) -
      launches_.begin());
  while (last > first && launches_[last - 1].call_end_ns > end_ns) --last;  // the call that the end cuts
  if (last == first) return {};

  Extent extent{std::numeric_limits<Nanoseconds>::max(), std::numeric_limits<Nanoseconds>::min(),
                std::numeric_limits<Nanoseconds>::min()};
  for (std::size_t l = first + n, r = last + n; l < r; l /= 2, r /= 2) {
    if (l % 2 == 1) extent = join(extent, tree_[l++]);
    if (r % 2 == 1) extent = join(extent, tree_[--r]);
  }
  Projection result{static_cast<std::int64_t>(last - first), extent.gpu_start_ns, extent.gpu_end_ns};
  if (extent.call_end_ns <= end_ns) return result;
  // Calls nested in one that outlasts the range: rare, so one by one.
  result = {0, std::numeric_limits<Nanoseconds>::max(), std::numeric_limits<Nanoseconds>::min()};
  for (std::size_t i = first; i < last; ++i) {
    if (launches_[i].call_end_ns > end_ns) continue;
    ++result.operations;
    result.start_ns = std::min(result.start_ns, launches_[i].gpu_start_ns);
    result.end_ns = std::max(result.end_ns, launches_[i].gpu_end_ns);
  }
  return result;
}

DeviceLaunches collect_launches(const RankEvents& events) {
  DeviceLaunches result;
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
    const ApiCall* call = events.launches.find(activity.correlation_id, activity.start_ns);
    const bool is_kernel = activity.kind == ActivityKind::kernel;
    if (call == nullptr) {
      if (is_kernel) {
        ++result.kernels_without_call;
        result.kernel_ns_without_call += activity.end_ns - activity.start_ns;
      }
      return;
    }
    result.threads[call->thread_id].add({call->start_ns, call->end_ns, activity.start_ns, activity.end_ns,
                                         is_kernel ? static_cast<std::int32_t>(activity.index) : -1});
  });
  for (auto& [thread, launches] : result.threads) launches.finish();
  return result;
}

Nanoseconds last_time(const Trace& trace) {
  Nanoseconds last = std::numeric_limits<Nanoseconds>::min();
  const auto see = [&](const auto& events) {
    for (const auto& event : events) last = std::max({last, event.start_ns, event.end_ns});
  };
  for (const ProcessTrace& process : trace.processes) {
    see(process.api_calls);
    see(process.nvtx_ranges);
    for (const DeviceTrace& device : process.devices) {
      see(device.kernels);
      see(device.memory_operations);
      see(device.graph_launches);
    }
  }
  return last;
}

}  // namespace nsys_explain::analysis
