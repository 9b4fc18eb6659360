#include "analysis/trace/compute_overlap.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "nsys_explain/model/sorting.hpp"

namespace nsys_explain::analysis {

std::vector<Nanoseconds> compute_within(const RankEvents& events, std::span<const Interval> intervals,
                                        Nanoseconds longest_pause_ns) {
  std::vector<Nanoseconds> overlaps_ns(intervals.size(), 0);
  std::vector<std::size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  sort_nearly_sorted(order,
                     [&](std::size_t a, std::size_t b) { return intervals[a].start_ns < intervals[b].start_ns; });
  std::vector<std::size_t> open;  // intervals that compute may still come to lie in
  std::size_t next = 0;
  // `resumed_ns`: when kernels run again, where compute begins with a pause.
  const auto take = [&](const Interval& compute, Nanoseconds resumed_ns) {
    for (; next < order.size() && intervals[order[next]].start_ns < compute.end_ns; ++next) open.push_back(order[next]);
    for (const std::size_t i : open) {
      if (intervals[i].end_ns <= resumed_ns) continue;
      const Nanoseconds from_ns = std::max(intervals[i].start_ns, compute.start_ns);
      overlaps_ns[i] += std::max<Nanoseconds>(0, std::min(intervals[i].end_ns, compute.end_ns) - from_ns);
    }
    std::erase_if(open, [&](std::size_t i) { return intervals[i].end_ns <= compute.end_ns; });
  };
  bool any = false;
  Interval busy;
  Nanoseconds resumed_ns = 0;
  for (const Kernel& kernel : events.device.kernels) {
    if (open.empty() && next == order.size()) return overlaps_ns;
    if (events.is_communication(kernel)) continue;
    if (any && kernel.start_ns <= busy.end_ns) {
      busy.end_ns = std::max(busy.end_ns, kernel.end_ns);
      continue;
    }
    if (any && (!open.empty() || intervals[order[next]].start_ns < busy.end_ns)) take(busy, resumed_ns);
    const bool went_on = any && kernel.start_ns <= busy.end_ns + longest_pause_ns;
    busy = {went_on ? busy.end_ns : kernel.start_ns, kernel.end_ns};
    any = true;
    resumed_ns = kernel.start_ns;
  }
  if (any) take(busy, resumed_ns);
  return overlaps_ns;
}

}  // namespace nsys_explain::analysis
