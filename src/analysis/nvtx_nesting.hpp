#pragma once

#include <cstdint>
#include <vector>

#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::analysis {

inline constexpr std::uint32_t no_parent = static_cast<std::uint32_t>(-1);

/// Push/pop ranges as a forest: nesting is per thread and domain.
struct Nesting {
  std::vector<Nanoseconds> end_ns;       ///< of every range; open ones end at the time given
  std::vector<std::uint32_t> parent;     ///< index of the enclosing push/pop range; no_parent
  std::vector<std::uint16_t> level;      ///< 0: outermost
  std::vector<std::uint32_t> children;   ///< directly inside
  std::vector<Nanoseconds> children_ns;  ///< their time
};

/// Linear in the ranges, which are sorted by start.
Nesting nest_ranges(const std::vector<NvtxRange>& ranges, Nanoseconds open_end_ns);

/// Indices of the ranges by start, longest first where several start together: outer before inner ones.
/// `open_end_ns` as above. Ranges of one thread, or of one thread and domain, keep that order among themselves.
std::vector<std::uint32_t> outer_first(const std::vector<NvtxRange>& ranges, const std::vector<Nanoseconds>& end_ns);

}  // namespace nsys_explain::analysis
