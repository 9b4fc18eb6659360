#pragma once

#include <span>
#include <vector>

#include "analysis/trace/rank_events.hpp"

namespace nsys_explain::analysis {

/// For each interval: how much of it compute kernels of the device ran (the union of their times, and of pauses between
/// them up to `longest_pause_ns`; but not of the pause in which an interval ends, for compute may have waited for that
/// end). O(n log n) in the intervals, linear where they ascend by start; linear in the kernels, of which nothing is
/// kept.
std::vector<Nanoseconds> compute_within(const RankEvents& events, std::span<const Interval> intervals,
                                        Nanoseconds longest_pause_ns = 0);

}  // namespace nsys_explain::analysis
