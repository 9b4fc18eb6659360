#include "collectives/rank_clocks.hpp"

#include <vector>

namespace nsys_explain::collectives {

std::map<std::int32_t, FineClock> fine_clocks_of_ranks(std::span<const SampledOperation> samples,
                                                       const RoughClocks& clocks) {
  std::vector<SampledOperation> operations(samples.begin(), samples.end());
  for (SampledOperation& operation : operations) operation.lane = 0;
  const std::vector<TurnLane> ranks = make_turn_lanes(operations, clocks);
  const std::vector<FineClock> fine = fine_clocks(ranks, clocks.centre_ns());
  std::map<std::int32_t, FineClock> result;
  for (std::size_t r = 0; r < ranks.size(); ++r) result[ranks[r].trace_rank] = fine[r];
  return result;
}

}  // namespace nsys_explain::collectives
