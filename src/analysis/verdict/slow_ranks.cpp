#include "analysis/verdict/slow_ranks.hpp"

#include <algorithm>
#include <utility>

#include "analysis/statistics/significance.hpp"

namespace nsys_explain::analysis {
namespace {

bool late_by_transfers(std::span<const std::size_t> ranks, const JobDelays& delays) {
  Nanoseconds transfers = 0, excess = 0;
  for (const std::size_t r : ranks) {
    transfers += delays.slow_transfers_of(r);
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
    Place late = late_with(slow, delays);
    const double p_value = p_value_of_set(late.ranks, delays.excess_work_ns, delays.role.size(), delays.bins);
    if (p_value <= limit) proven.emplace(&slow, LateTogether{std::move(late), p_value});
  }
  return proven;
}

void take_off_slow_transfers(const SlowRanks& slow_ranks, JobDelays& delays) {
  for (const auto& [slow, together] : slow_ranks) {
    for (const std::size_t r : together.late.ranks) {
      const bool is_slow =
          std::any_of(slow_ranks.begin(), slow_ranks.end(), [&](const auto& other) { return other.first->rank == r; });
      for (std::size_t i = r * delays.bins; !is_slow && i < (r + 1) * delays.bins; ++i)
        delays.excess_work_ns[i] -= std::exchange(delays.slow_transfer_ns[i], 0);
    }
  }
}

void leave_out_slow_ranks(const SlowRanks& slow_ranks, std::span<const Place> places, std::vector<std::size_t>& likes) {
  for (const auto& entry : slow_ranks)
    std::erase_if(likes, [&](std::size_t p) {
      return std::binary_search(places[p].ranks.begin(), places[p].ranks.end(), entry.first->rank);
    });
}

}  // namespace nsys_explain::analysis
