#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// What containers are asked for again and again.
namespace nsys_explain {

/// The middle value, of an even number the smaller of the two in the middle: always one that was observed. In linear
/// time; reorders `values`, which must not be empty.
template <class Values>
auto lower_median(Values&& values) {
  const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

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

/// Gives back what a container holds: `container = {}` would only empty it and keep its memory.
template <class Container>
void release(Container& container) {
  container = Container();
}

/// Place of a trace rank among `trace_ranks`, ascending, which hold it: at its own number where none below it is
/// missing. Asked for every arrival, so without a search there.
inline std::size_t index_of_trace_rank(std::span<const std::int32_t> trace_ranks, std::int32_t trace_rank) {
  const auto same = static_cast<std::size_t>(trace_rank);
  if (same < trace_ranks.size() && trace_ranks[same] == trace_rank) return same;
  return static_cast<std::size_t>(std::lower_bound(trace_ranks.begin(), trace_ranks.end(), trace_rank) -
                                  trace_ranks.begin());
}

// Medians in linear time, beside lower_median: they differ in what an even number of values has. They reorder
// `values`, which must not be empty.

/// The larger of the two in the middle: always one that was observed.
template <class Values>
auto upper_median(Values&& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Half way between the two in the middle.
template <class Values>
double mean_median(Values&& values) {
  const double upper = upper_median(values);
  if (values.size() % 2 == 1) return upper;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  return (*std::max_element(values.begin(), middle) + upper) / 2;
}

/// Room for `more` values behind those that are there, and for an eighth of all that come later: what grows to hundreds
/// of megabytes must not hold as much again in reserve.
template <class T>
void reserve_sparingly(std::vector<T>& values, std::size_t more) {
  if (values.capacity() - values.size() < more) values.reserve(values.size() + std::max(more, values.size() / 8));
}

}  // namespace nsys_explain
