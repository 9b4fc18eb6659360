#include "nsys_explain/model/intervals.hpp"

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain {

std::vector<Interval> merge_intervals(std::vector<Interval> intervals) {
  sort_nearly_sorted(intervals, [](const Interval& a, const Interval& b) { return a.start_ns < b.start_ns; });
  std::size_t merged = 0;
  for (const Interval interval : intervals) {
    if (interval.end_ns <= interval.start_ns) continue;
    if (merged > 0 && interval.start_ns <= intervals[merged - 1].end_ns) {
      intervals[merged - 1].end_ns = std::max(intervals[merged - 1].end_ns, interval.end_ns);
    } else {
      intervals[merged++] = interval;
    }
  }
  intervals.resize(merged);
  return intervals;
}

Nanoseconds total_length(std::span<const Interval> merged) {
  Nanoseconds total = 0;
  for (const Interval& interval : merged) total += interval.end_ns - interval.start_ns;
  return total;
}

std::vector<Interval> subtract(std::span<const Interval> a, std::span<const Interval> b) {
  std::vector<Interval> rest;
  std::size_t j = 0;
  for (Interval piece : a) {
    while (j < b.size() && b[j].end_ns <= piece.start_ns) ++j;
    for (std::size_t k = j; k < b.size() && b[k].start_ns < piece.end_ns; ++k) {
      if (b[k].start_ns > piece.start_ns) rest.push_back({piece.start_ns, b[k].start_ns});
      piece.start_ns = std::max(piece.start_ns, b[k].end_ns);
    }
    if (piece.start_ns < piece.end_ns) rest.push_back(piece);
  }
  return rest;
}

}  // namespace nsys_explain
