#pragma once

#include <span>
#include <vector>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain {

/// Sorts and merges: the result is disjoint, not touching, ascending. Intervals without length vanish.
std::vector<Interval> merge_intervals(std::vector<Interval> intervals);

/// Total length of merged intervals.
Nanoseconds total_length(std::span<const Interval> merged);

/// Both arguments and the result are merged.
std::vector<Interval> intersect(std::span<const Interval> a, std::span<const Interval> b);
std::vector<Interval> subtract(std::span<const Interval> a, std::span<const Interval> b);

}  // namespace nsys_explain
