#pragma once

#include <cstdint>
#include <vector>

#include "analysis/waits/rank_timeline.hpp"

namespace nsys_explain::pipeline {

/// What the arrivals of a trace rank in one step of the job add up to.
struct StepSums {
  Nanoseconds own_lateness_ns = 0;
  Nanoseconds wait_ns = 0;
  Nanoseconds excess_ns = 0;  ///< analysis::excess_at
  Nanoseconds caused_wait_ns = 0;
  std::int32_t compared = 0;    ///< arrivals whose work was compared, be it with other steps
  std::int32_t with_peers = 0;  ///< those with peers
};

/// By index of the trace rank, then step; what lies outside of all steps comes last. Empty where the path is not here.
using SumsOfSteps = std::vector<std::vector<StepSums>>;

/// The entry of an arrival's step among those of its rank.
inline StepSums& sums_of_step(std::vector<StepSums>& sums, const analysis::PathArrival& arrival) {
  return arrival.step < 0 ? sums.back() : sums[static_cast<std::size_t>(arrival.step)];
}

/// All but caused waits; after analysis::finish_excess.
std::vector<StepSums> add_up_steps(const analysis::RankTimeline& path, std::size_t steps);

}  // namespace nsys_explain::pipeline
