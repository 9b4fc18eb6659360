#include "pipeline/attribute/step_sums.hpp"

#include <algorithm>

namespace nsys_explain::pipeline {

std::vector<StepSums> add_up_steps(const analysis::RankTimeline& path, std::size_t steps) {
  std::vector<StepSums> sums(steps + 1);
  for (std::size_t i = 0; i < path.arrivals.size(); ++i) {
    const analysis::PathArrival& arrival = path.arrivals[i];
    StepSums& of_step = sums_of_step(sums, arrival);
    if (arrival.compared) {
      ++of_step.compared;
      of_step.with_peers += arrival.has_peers ? 1 : 0;
      of_step.own_lateness_ns += std::min(analysis::own_lateness_of(path, i), path.outcomes[i].lateness_ns);
    }
    of_step.wait_ns += path.outcomes[i].wait_ns;
    of_step.excess_ns += analysis::excess_at(path, i);
  }
  return sums;
}

}  // namespace nsys_explain::pipeline
