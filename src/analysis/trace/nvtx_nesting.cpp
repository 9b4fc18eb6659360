#include "analysis/trace/nvtx_nesting.hpp"

#include <utility>

#include "nsys_explain/model/run_map.hpp"

namespace nsys_explain::analysis {

Parents nest_ranges(const NvtxRanges& ranges, Nanoseconds open_end_ns) {
  Parents parents(ranges.size(), no_parent);
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
    if (!stack.empty()) parents[i] = stack.back().range;
    stack.push_back({i, end_ns});
  });
  return parents;
}

}  // namespace nsys_explain::analysis
