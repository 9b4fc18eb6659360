#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain {

/// Sorts and merges: the result is disjoint, not touching, ascending. Intervals without length vanish.
std::vector<Interval> merge_intervals(std::vector<Interval> intervals);

/// Total length of merged intervals.
Nanoseconds total_length(std::span<const Interval> merged);

/// Length of the union of intervals that come by start, without keeping them.
class UnionLength {
 public:
  void add(const Interval& interval) {
    const Nanoseconds new_from_ns = std::max(interval.start_ns, until_ns_);
    if (interval.end_ns <= new_from_ns) return;
    length_ns_ += interval.end_ns - new_from_ns;
    until_ns_ = interval.end_ns;
  }
  Nanoseconds length_ns() const { return length_ns_; }

 private:
  Nanoseconds until_ns_ = std::numeric_limits<Nanoseconds>::min();
  Nanoseconds length_ns_ = 0;
};

/// Both arguments and the result are merged.
std::vector<Interval> subtract(std::span<const Interval> a, std::span<const Interval> b);

}  // namespace nsys_explain
