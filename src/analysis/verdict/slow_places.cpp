#include "analysis/verdict/slow_places.hpp"

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

bool has_some_of(const Place& place, const SlowPlace& slow) {
  return std::any_of(place.ranks.begin(), place.ranks.end(), [&](std::size_t r) { return slow.has(r); });
}

}  // namespace

const SlowPlace* slow_place_behind(const Place& place, const JobDelays& delays) {
  if (!late_by_transfers(place.ranks, delays)) return nullptr;
  const auto found = std::find_if(delays.slow_places.begin(), delays.slow_places.end(), [&](const SlowPlace& slow) {
    return has_some_of(place, slow) ||
           std::includes(slow.partners.begin(), slow.partners.end(), place.ranks.begin(), place.ranks.end());
  });
  return found != delays.slow_places.end() ? &*found : nullptr;
}

std::vector<std::size_t> late_with(const SlowPlace& slow, const JobDelays& delays) {
  std::vector<std::size_t> late = slow.ranks;
  for (const std::size_t r : slow.partners)
    if (!slow.has(r) && late_by_transfers(std::span(&r, 1), delays)) late.push_back(r);
  return late;
}

SlowPlaces proven_slow_places(const JobDelays& delays, double limit) {
  SlowPlaces proven;
  for (const SlowPlace& slow : delays.slow_places) {
    if (!late_by_transfers(slow.ranks, delays)) continue;
    std::vector<std::size_t> late = late_with(slow, delays);
    const double p_value = p_value_of_set(late, delays.excess_work_ns, delays.role.size(), delays.bins);
    if (p_value <= limit) proven.emplace(&slow, LateTogether{std::move(late), p_value});
  }
  return proven;
}

void take_off_slow_transfers(const SlowPlaces& slow_places, JobDelays& delays) {
  for (const auto& [slow, together] : slow_places) {
    for (const std::size_t r : together.late) {
      const bool is_slow =
          std::any_of(slow_places.begin(), slow_places.end(), [&](const auto& other) { return other.first->has(r); });
      for (std::size_t i = r * delays.bins; !is_slow && i < (r + 1) * delays.bins; ++i)
        delays.excess_work_ns[i] -= std::exchange(delays.slow_transfer_ns[i], 0);
    }
  }
}

void leave_out_slow_places(const SlowPlaces& slow_places, std::span<const Place> places,
                           std::vector<std::size_t>& likes) {
  for (const auto& entry : slow_places)
    std::erase_if(likes, [&](std::size_t p) { return has_some_of(places[p], *entry.first); });
}

}  // namespace nsys_explain::analysis
