#include "nsys_explain/model/critical_path.hpp"

#include <map>

namespace nsys_explain {

std::string_view critical_kind_name(CriticalKind kind) {
  constexpr std::array<std::string_view, critical_kind_count> names{"compute", "copy", "transfer",
                                                                    "launch",  "host", "unknown"};
  return names[static_cast<std::size_t>(kind)];
}

std::vector<CriticalShare> critical_shares(const CriticalPath& path) {
  std::map<std::int32_t, CriticalShare> sums;
  for (const CriticalShare& share : path.by_step) {
    CriticalShare& sum = sums[share.trace_rank];
    sum.trace_rank = share.trace_rank;
    for (std::size_t kind = 0; kind < critical_kind_count; ++kind) sum.duration_ns[kind] += share.duration_ns[kind];
  }
  std::vector<CriticalShare> shares;
  for (const auto& [trace_rank, sum] : sums) shares.push_back(sum);
  return shares;
}

}  // namespace nsys_explain
