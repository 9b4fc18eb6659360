#include "nvtx_nesting.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "nsys_explain/model/run_map.hpp"

namespace nsys_explain::analysis {

std::vector<std::uint32_t> outer_first(const NvtxRanges& ranges, Nanoseconds open_end_ns) {
  std::vector<std::uint32_t> order(ranges.size());
  std::iota(order.begin(), order.end(), 0U);
  // Sorted by start already; only runs of equal starts change.
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && ranges[end].start_ns == ranges[begin].start_ns) ++end;
    if (end - begin > 1) {
      std::stable_sort(order.begin() + static_cast<std::ptrdiff_t>(begin),
                       order.begin() + static_cast<std::ptrdiff_t>(end), [&](std::uint32_t a, std::uint32_t b) {
                         return end_of(ranges[a], open_end_ns) > end_of(ranges[b], open_end_ns);
                       });
    }
    begin = end;
  }
  return order;
}

Nesting nest_ranges(const NvtxRanges& ranges, Nanoseconds open_end_ns) {
  const std::size_t n = ranges.size();
  Nesting nesting;
  nesting.parent.assign(n, no_parent);
  nesting.level.assign(n, 0);
  nesting.children_ns.assign(n, 0);
  struct Open {
    std::uint32_t range;
    Nanoseconds end_ns;
  };
  RunMap<std::pair<std::uint32_t, StringIndex>, std::vector<Open>> stacks;  // by thread and domain
  for (const std::uint32_t i : outer_first(ranges, open_end_ns)) {
    const NvtxRange& range = ranges[i];
    if (range.kind != NvtxKind::push_pop) continue;
    const Nanoseconds end_ns = end_of(range, open_end_ns);
    std::vector<Open>& stack = stacks[{range.thread_id, range.domain}];
    while (!stack.empty() && (stack.back().end_ns < end_ns || stack.back().end_ns <= range.start_ns)) stack.pop_back();
    if (!stack.empty()) {
      const std::uint32_t parent = stack.back().range;
      nesting.parent[i] = parent;
      nesting.level[i] = static_cast<std::uint16_t>(
          std::min<std::size_t>(nesting.level[parent] + std::size_t{1}, std::numeric_limits<std::uint16_t>::max()));
      nesting.children_ns[parent] += end_ns - range.start_ns;
    }
    stack.push_back({i, end_ns});
  }
  return nesting;
}

}  // namespace nsys_explain::analysis
