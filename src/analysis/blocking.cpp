#include "nsys_explain/analysis/blocking.hpp"

#include <algorithm>
#include <vector>

#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {

void mark_blocking(const RankEvents& events, std::span<Arrival> arrivals) {
  constexpr Nanoseconds looked_at_ns = 50'000;
  std::vector<Interval> compute;
  for (const Kernel& kernel : events.device.kernels)
    if (!events.is_communication(kernel)) compute.push_back({kernel.start_ns, kernel.end_ns});
  compute = merge_intervals(std::move(compute));
  for (Arrival& arrival : arrivals) {
    const Nanoseconds begin_ns = std::max(arrival.enter_ns, arrival.exit_ns - looked_at_ns);
    auto running = std::partition_point(compute.begin(), compute.end(),
                                        [&](const Interval& interval) { return interval.end_ns <= begin_ns; });
    Nanoseconds overlapped_ns = 0;
    for (; running != compute.end() && running->start_ns < arrival.exit_ns; ++running)
      overlapped_ns += std::min(running->end_ns, arrival.exit_ns) - std::max(running->start_ns, begin_ns);
    arrival.blocking = 2 * overlapped_ns <= arrival.exit_ns - begin_ns;
  }
}

}  // namespace nsys_explain::analysis
