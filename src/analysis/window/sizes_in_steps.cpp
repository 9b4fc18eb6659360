#include "analysis/window/sizes_in_steps.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace nsys_explain::analysis {
namespace {

/// Where operations lie in their steps, by kind and communicator.
class PlacesInSteps {
 public:
  /// Communicator, operation, place in the step, of how many there.
  using Place = std::tuple<std::uint64_t, Operation, std::int32_t, std::int32_t>;

  PlacesInSteps(std::span<const Arrival> arrivals, const Steps& steps) : arrivals_(arrivals) {
    for (const Arrival& arrival : arrivals) {
      const std::int32_t step = steps.index_of(arrival.enter_ns);
      at_.emplace_back(step, counts_[{arrival.communicator, arrival.operation, step}]++);
    }
  }
  bool in_step(std::size_t arrival) const { return at_[arrival].first >= 0; }
  Place of(std::size_t arrival) const {
    const auto [step, place] = at_[arrival];
    const auto& [communicator, operation] = std::tie(arrivals_[arrival].communicator, arrivals_[arrival].operation);
    return {communicator, operation, place, counts_.at({communicator, operation, step})};
  }

 private:
  std::span<const Arrival> arrivals_;
  std::map<std::tuple<std::uint64_t, Operation, std::int32_t>, std::int32_t> counts_;  ///< by step
  std::vector<std::pair<std::int32_t, std::int32_t>> at_;  ///< of each arrival its step and place there
};

}  // namespace

std::vector<std::int64_t> sizes_in_steps(std::span<const Arrival> arrivals, const Steps& steps) {
  std::vector<std::int64_t> sizes;
  for (const Arrival& arrival : arrivals) sizes.push_back(arrival.call_bytes);
  if (std::find(sizes.begin(), sizes.end(), -1) == sizes.end()) return sizes;
  const PlacesInSteps places(arrivals, steps);
  std::map<PlacesInSteps::Place, std::set<std::int64_t>> known;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] >= 0 && places.in_step(i)) known[places.of(i)].insert(sizes[i]);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] >= 0 || !places.in_step(i)) continue;
    const auto found = known.find(places.of(i));
    if (found != known.end() && found->second.size() == 1) sizes[i] = *found->second.begin();
  }
  return sizes;
}

}  // namespace nsys_explain::analysis
