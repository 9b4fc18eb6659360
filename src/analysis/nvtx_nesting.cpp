#include "nvtx_nesting.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "nsys_explain/model/run_map.hpp"

namespace nsys_explain::analysis {

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
  for_each_outer_first(ranges, open_end_ns, [&](std::uint32_t i) {
    const NvtxRange range = ranges[i];
    if (range.kind != NvtxKind::push_pop) return;
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
  });
  return nesting;
}

}  // namespace nsys_explain::analysis
