#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::analysis {

inline constexpr std::uint32_t no_parent = static_cast<std::uint32_t>(-1);

/// When a range ends; one that was never closed, at `open_end_ns`.
inline Nanoseconds end_of(const NvtxRange& range, Nanoseconds open_end_ns) {
  return range.end_ns == no_time ? std::max(open_end_ns, range.start_ns) : range.end_ns;
}

/// Push/pop ranges as a forest: nesting is per thread and domain. Parallel to the ranges.
struct Nesting {
  std::vector<std::uint32_t> parent;     ///< index of the enclosing push/pop range; no_parent
  std::vector<std::uint16_t> level;      ///< 0: outermost
  std::vector<Nanoseconds> children_ns;  ///< time of those directly inside
};

/// Linear in the ranges, which are sorted by start.
Nesting nest_ranges(const NvtxRanges& ranges, Nanoseconds open_end_ns);

/// Indices of the ranges by start, longest first where several start together: outer before inner ones.
/// Ranges of one thread, or of one thread and domain, keep that order among themselves.
std::vector<std::uint32_t> outer_first(const NvtxRanges& ranges, Nanoseconds open_end_ns);

}  // namespace nsys_explain::analysis
