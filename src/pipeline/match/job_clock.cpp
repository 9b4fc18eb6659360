#include "pipeline/match/job_clock.hpp"

#include <utility>

#include "clock/fit.hpp"

namespace nsys_explain::pipeline {

clock::ClockFit estimate_clock(const exchange::Communicator& communicator, const JobRanks& job, CrossRank& cross,
                               const clock::ClockOptions& options) {
  const clock::Reduction reduction{
      .sum = [&](std::span<const std::int64_t> mine) { return communicator.sum(mine); },
      .maximum = [&](std::span<const std::int64_t> mine) { return communicator.maximum(mine); }};
  clock::ClockFit fit = clock::fit_clocks(job.sessions, std::exchange(cross.observations, {}), reduction, options);
  if (job.trace_ranks.empty()) fit.warnings.clear();  // no GPU work is timed by these clocks
  return fit;
}

}  // namespace nsys_explain::pipeline
