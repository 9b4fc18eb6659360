#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace nsys_explain {

/// Place of a trace rank among `trace_ranks`, ascending, which hold it: at its own number where none below it is
/// missing. Asked for every arrival, so without a search there.
inline std::size_t index_of_trace_rank(std::span<const std::int32_t> trace_ranks, std::int32_t trace_rank) {
  const auto same = static_cast<std::size_t>(trace_rank);
  if (same < trace_ranks.size() && trace_ranks[same] == trace_rank) return same;
  return static_cast<std::size_t>(std::lower_bound(trace_ranks.begin(), trace_ranks.end(), trace_rank) -
                                  trace_ranks.begin());
}

}  // namespace nsys_explain
