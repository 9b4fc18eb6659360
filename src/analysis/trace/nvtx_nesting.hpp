#pragma once

#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::analysis {

inline constexpr std::uint32_t no_parent = static_cast<std::uint32_t>(-1);

/// When a range ends; one that was never closed, at `open_end_ns`.
inline Nanoseconds end_of(const NvtxRange& range, Nanoseconds open_end_ns) {
  return range.end_ns == no_time ? std::max(open_end_ns, range.start_ns) : range.end_ns;
}

/// Push/pop ranges as a forest, nesting being per thread and domain: for each range the one directly around it, or
/// no_parent. Linear in the ranges, which are sorted by start.
using Parents = std::pmr::vector<std::uint32_t>;
Parents nest_ranges(const NvtxRanges& ranges, Nanoseconds open_end_ns);

/// How many ranges there are around a range.
inline std::int64_t level_of(std::uint32_t range, const Parents& parents) {
  std::int64_t level = 0;
  for (; parents[range] != no_parent; range = parents[range]) ++level;
  return level;
}

/// Calls `use(index)` for the ranges by start, longest first where several start together: outer before inner ones.
/// Ranges of one thread, or of one thread and domain, keep that order among themselves.
template <class Use>
void for_each_outer_first(const NvtxRanges& ranges, Nanoseconds open_end_ns, const Use& use) {
  std::vector<std::uint32_t> together;
  for (std::size_t begin = 0; begin < ranges.size();) {
    const Nanoseconds start_ns = ranges[begin].start_ns;
    together.assign(1, static_cast<std::uint32_t>(begin));
    std::size_t end = begin + 1;
    for (; end < ranges.size() && ranges[end].start_ns == start_ns; ++end) {
      together.push_back(static_cast<std::uint32_t>(end));
    }
    if (together.size() > 1) {
      std::stable_sort(together.begin(), together.end(), [&](std::uint32_t a, std::uint32_t b) {
        return end_of(ranges[a], open_end_ns) > end_of(ranges[b], open_end_ns);
      });
    }
    for (const std::uint32_t i : together) use(i);
    begin = end;
  }
}

}  // namespace nsys_explain::analysis
