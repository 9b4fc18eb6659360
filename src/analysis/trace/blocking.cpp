#include "analysis/trace/blocking.hpp"

#include <algorithm>
#include <vector>

#include "analysis/trace/compute_overlap.hpp"

namespace nsys_explain::analysis {

void mark_blocking(const RankEvents& events, std::span<TraceArrival> arrivals) {
  constexpr Nanoseconds looked_at_ns = 50'000;
  std::vector<Interval> ends;
  ends.reserve(arrivals.size());
  for (const TraceArrival& arrival : arrivals) {
    ends.push_back({std::max(arrival.enter.ns, arrival.exit.ns - looked_at_ns), arrival.exit.ns});
  }
  const std::vector<Nanoseconds> overlapped_ns = compute_within(events, ends);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    arrivals[i].blocking = 2 * overlapped_ns[i] <= ends[i].end_ns - ends[i].start_ns;
  }
}

}  // namespace nsys_explain::analysis
