#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

namespace nsys_explain {

/// Sorts stably events that are nearly in order, as most tables are: looks first, then takes out the few that come too
/// late and merges them back in, without a second copy of all the others.
template <class Event, class Less>
void sort_nearly_sorted(std::vector<Event>& events, const Less& less) {
  auto kept = std::is_sorted_until(events.begin(), events.end(), less);  // events before it are in order
  if (kept == events.end()) return;
  std::size_t late_count = 0;
  auto latest = std::prev(kept);
  for (auto event = kept; event != events.end(); ++event) {
    if (less(*event, *latest)) {
      ++late_count;
    } else {
      latest = event;
    }
  }
  if (late_count > events.size() / 16) return std::stable_sort(events.begin(), events.end(), less);

  std::vector<Event> late;
  late.reserve(late_count);
  for (auto event = kept; event != events.end(); ++event) {
    if (less(*event, *std::prev(kept))) {
      late.push_back(*event);
    } else {
      *kept++ = *event;
    }
  }
  std::stable_sort(late.begin(), late.end(), less);
  // From the end; of equals, those that stayed were before those that came late.
  for (auto place = events.end(); !late.empty();) {
    if (kept != events.begin() && less(late.back(), *std::prev(kept))) {
      *--place = *--kept;
    } else {
      *--place = late.back();
      late.pop_back();
    }
  }
}

}  // namespace nsys_explain
