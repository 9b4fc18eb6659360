#include "pipeline/attribute/job_steps.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "analysis/waits/path.hpp"

namespace nsys_explain::pipeline {

analysis::Steps agree_on_steps(const exchange::Communicator& communicator, const JobRanks& job, const Homes& homes) {
  std::int64_t most = 0;
  for (const LocalRank* const rank : homes.local)
    most = std::max(most, static_cast<std::int64_t>(rank->steps.start_ns.size()));
  most = communicator.maximum(most);
  analysis::Steps steps;
  if (most == 0) return steps;
  constexpr std::int64_t nobody = std::numeric_limits<std::int32_t>::min();
  std::int64_t chosen = nobody;  // the lowest, negated
  for (const LocalRank* const rank : homes.local)
    if (static_cast<std::int64_t>(rank->steps.start_ns.size()) == most)
      chosen = std::max(chosen, -static_cast<std::int64_t>(rank->trace_rank));
  chosen = -communicator.maximum(chosen);

  std::vector<std::int64_t> mine;
  if (const LocalRank* const rank = homes.of_index[job.index_of(static_cast<std::int32_t>(chosen))]) {
    const analysis::Steps& own = rank->steps;
    mine = {static_cast<std::int64_t>(own.source), own.numbered ? 1 : 0, own.first_number, own.end_ns};
    mine.insert(mine.end(), own.start_ns.begin(), own.start_ns.end());
  }
  const std::vector<std::int64_t> all = communicator.all_gather(std::span<const std::int64_t>(mine)).values;
  steps.source = static_cast<analysis::StepSource>(all[0]);
  steps.numbered = all[1] != 0;
  steps.first_number = all[2];
  steps.end_ns = all[3];
  steps.start_ns.assign(all.begin() + 4, all.end());
  return steps;
}

void count_steps_by(const analysis::Steps& job_steps, LocalRank& rank) {
  const std::vector<std::int32_t> related = analysis::relate_steps(job_steps, rank.steps);
  for (analysis::PathArrival& arrival : rank.path.arrivals)
    if (arrival.step >= 0) arrival.step = related[static_cast<std::size_t>(arrival.step)];
}

}  // namespace nsys_explain::pipeline
