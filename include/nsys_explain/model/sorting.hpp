#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace nsys_explain {

/// Sorts stably events that are nearly in order, as most tables are: a few that come late, or the rows of several
/// threads or streams in turns. Merges neighbouring runs that are in order, and of those only the parts that overlap:
/// linear where these are few and short.
template <class Event, class Allocator, class Less>
void sort_nearly_sorted(std::vector<Event, Allocator>& events, const Less& less) {
  std::vector<std::size_t> ends;  // of the runs
  for (std::size_t i = 1; i <= events.size(); ++i) {
    if (i == events.size() || less(events[i], events[i - 1])) ends.push_back(i);
  }
  if (ends.size() > events.size() / 4) return std::stable_sort(events.begin(), events.end(), less);
  const auto at = [&](std::size_t i) { return events.begin() + static_cast<std::ptrdiff_t>(i); };
  while (ends.size() > 1) {
    std::size_t begin = 0, kept = 0;
    for (std::size_t run = 0; run < ends.size(); run += 2) {
      const std::size_t end = ends[std::min(run + 1, ends.size() - 1)];
      if (const std::size_t middle = ends[run]; middle < end) {
        const auto first = std::upper_bound(at(begin), at(middle), events[middle], less);
        const auto last = std::lower_bound(at(middle), at(end), events[middle - 1], less);
        std::inplace_merge(first, at(middle), last, less);
      }
      begin = ends[kept++] = end;
    }
    ends.resize(kept);
  }
}

}  // namespace nsys_explain
