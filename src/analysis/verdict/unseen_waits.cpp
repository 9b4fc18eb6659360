#include "analysis/verdict/unseen_waits.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {
namespace {

/// Communication that no compute hides, as a share of the window: captures may differ in length.
double exposed_communication(const RankSummary& rank) {
  const Budget& budget = rank.budget;
  return budget.window_ns > 0
             ? static_cast<double>(budget.exposed_communication_ns) / static_cast<double>(budget.window_ns)
             : 0;
}

/// By how much the latest of a place is behind everybody else.
Nanoseconds behind_all_others(const Place& place, const JobDelays& delays) {
  std::vector<std::size_t> others;
  for (std::size_t r = 0; r < delays.role.size(); ++r)
    if (!std::binary_search(place.ranks.begin(), place.ranks.end(), r)) others.push_back(r);
  const std::vector<Nanoseconds> of_place = delays.greatest_excess(place.ranks);
  const std::vector<Nanoseconds> of_others = delays.greatest_excess(others);
  Nanoseconds behind_ns = 0;
  for (std::size_t b = 0; b < delays.bins; ++b) behind_ns += std::max<Nanoseconds>(0, of_place[b] - of_others[b]);
  return behind_ns;
}

}  // namespace

UnseenWaits estimate_unseen_waits(const Place& place, std::span<const RankSummary> ranks, const JobDelays& delays) {
  UnseenWaits waits;
  const auto is_related = [&](std::size_t rank) {
    return std::any_of(place.ranks.begin(), place.ranks.end(),
                       [&](std::size_t own) { return delays.clock_group[own] == delays.clock_group[rank]; });
  };
  for (const std::size_t own : place.ranks)
    waits.own_communication = std::max(waits.own_communication, exposed_communication(ranks[own]));
  waits.behind_ns = behind_all_others(place, delays);
  std::vector<double> communication;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const double longer = exposed_communication(ranks[r]) - waits.own_communication;
    if (is_related(r) || longer <= 0) continue;
    communication.push_back(exposed_communication(ranks[r]));
    waits.cost_ns +=
        std::min(waits.behind_ns, static_cast<Nanoseconds>(longer * static_cast<double>(ranks[r].budget.window_ns)));
  }
  waits.ranks = communication.size();
  if (!communication.empty()) waits.communication = lower_median(communication);
  return waits;
}

std::string describe_waits(const UnseenWaits& waits) {
  return fmt::format(
      "no clock relates it to {} trace ranks that communicate longer while no compute hides it: {:.1f}% of their "
      "windows, {:.1f}% of its own; it is {:.3f} ms behind everybody else in all, so this looks like their waiting for "
      "it",
      waits.ranks, 100 * waits.communication, 100 * waits.own_communication,
      static_cast<double>(waits.behind_ns) * 1e-6);
}

}  // namespace nsys_explain::analysis
