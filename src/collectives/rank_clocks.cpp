#include "rank_clocks.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

namespace nsys_explain::collectives {

std::map<std::int32_t, FineClock> fine_clocks_of_ranks(std::span<const SampledOperation> samples,
                                                       const RoughClocks& clocks) {
  std::map<std::int32_t, TurnLane> by_rank;
  for (const SampledOperation& operation : samples) {
    TurnLane& rank = by_rank[operation.trace_rank];
    rank.trace_rank = operation.trace_rank;
    rank.component = clocks.component_of(operation.session);
    TurnOperation& added = rank.operations[operation.symbol].emplace_back();
    added.enter_ns = clocks.to_common(operation.session, operation.enter_ns);
    added.exit_ns = clocks.to_common(operation.session, operation.exit_ns);
    added.operation = operation.operation;
  }
  std::vector<TurnLane> ranks;
  for (auto& [trace_rank, rank] : by_rank) {
    for (auto& [symbol, operations] : rank.operations) {
      std::sort(operations.begin(), operations.end(), [](const TurnOperation& a, const TurnOperation& b) {
        return std::tie(a.exit_ns, a.enter_ns) < std::tie(b.exit_ns, b.enter_ns);
      });
    }
    ranks.push_back(std::move(rank));
  }
  add_nearest_neighbours(ranks);
  const std::vector<FineClock> fine = fine_clocks(ranks, clocks.centre_ns());
  std::map<std::int32_t, FineClock> result;
  for (std::size_t r = 0; r < ranks.size(); ++r) result[ranks[r].trace_rank] = fine[r];
  return result;
}

}  // namespace nsys_explain::collectives
