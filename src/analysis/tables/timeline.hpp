#pragma once

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/timeline.hpp"

namespace nsys_explain::analysis {

/// Everything that kept the device of one trace rank busy, and what the threads that launched it did: NVTX ranges,
/// calls of CUDA and of the system. All that overlaps the window. Threads launched work where they did so within
/// shown_by_timeline(window). Times are trace time; trace_rank is not set. No two events of one kind, track and lane
/// overlap.
Timeline timeline_of(const RankEvents& events, const Interval& window);

/// The time in which kernels and calls must be known: the window, and as much before it.
Interval shown_by_timeline(const Interval& window);

/// Its NVLink traffic in percent of the peak where it was sampled (a value where it changes).
void add_link_traffic(const RankEvents& events, Timeline& timeline);

/// The events of a timeline that two pictures need, one of all and one of the moment: of `most` half those nearest to
/// the moment, and the longest of the others. Returns how many are left out.
std::int64_t thin_out(std::vector<TimelineEvent>& events, Nanoseconds at_ns, std::size_t most);

}  // namespace nsys_explain::analysis
