#include "slow_ranks.hpp"

#include <algorithm>

#include "nsys_explain/analysis/significance.hpp"

namespace nsys_explain::analysis {
namespace {

bool late_by_transfers(std::span<const std::size_t> ranks, const JobDelays& delays) {
  Nanoseconds transfers = 0, excess = 0;
  for (const std::size_t r : ranks) {
    transfers += delays.slow_transfer_ns[r];
    excess += delays.excess_of(r);
  }
  return transfers > 0 && 2 * transfers > excess;
}

}  // namespace

const SlowRank* slow_rank_behind(const Place& place, const JobDelays& delays) {
  if (!late_by_transfers(place.ranks, delays)) return nullptr;
  const auto found = std::find_if(delays.slow_ranks.begin(), delays.slow_ranks.end(), [&](const SlowRank& slow) {
    return std::binary_search(place.ranks.begin(), place.ranks.end(), slow.rank) ||
           std::includes(slow.partners.begin(), slow.partners.end(), place.ranks.begin(), place.ranks.end());
  });
  return found != delays.slow_ranks.end() ? &*found : nullptr;
}

Place late_with(const SlowRank& slow, const JobDelays& delays) {
  Place late{Level::gpu, "", {slow.rank}, {}};
  for (const std::size_t r : slow.partners)
    if (r != slow.rank && late_by_transfers(std::span(&r, 1), delays)) late.ranks.push_back(r);
  return late;
}

SlowRanks proven_slow_ranks(const JobDelays& delays, double limit) {
  SlowRanks proven;
  for (const SlowRank& slow : delays.slow_ranks) {
    if (!late_by_transfers(std::span(&slow.rank, 1), delays)) continue;
    const double p_value =
        p_value_of_set(late_with(slow, delays).ranks, delays.excess_work_ns, delays.role.size(), delays.bins);
    if (p_value <= limit) proven.emplace(&slow, p_value);
  }
  return proven;
}

void leave_out_explained(const SlowRanks& slow_ranks, std::span<const Place> places, const JobDelays& delays,
                         std::vector<std::size_t>& likes) {
  for (const auto& entry : slow_ranks) {
    const std::vector<std::size_t> late = late_with(*entry.first, delays).ranks;
    std::erase_if(likes, [&](std::size_t p) {
      const std::vector<std::size_t>& ranks = places[p].ranks;
      return std::find_first_of(ranks.begin(), ranks.end(), late.begin(), late.end()) != ranks.end();
    });
  }
}

}  // namespace nsys_explain::analysis
