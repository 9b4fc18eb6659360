#include "analysis/window/step_time.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "analysis/statistics/change_points.hpp"
#include "analysis/statistics/statistics.hpp"

namespace nsys_explain::analysis {

void describe_changes(const Steps& job, StepTime& time) {
  std::vector<std::int64_t> durations;  // the last step may be cut off by the end of the capture
  for (std::size_t step = 1; step < job.start_ns.size(); ++step)
    durations.push_back(job.start_ns[step] - job.start_ns[step - 1]);
  if (durations.empty()) return;
  for (const ChangePoint& change : change_points(durations))
    time.change_points.push_back(
        {job.first_number + static_cast<std::int64_t>(change.first), change.before, change.after, change.p_value});
  std::sort(durations.begin(), durations.end());
  time.steps = std::ssize(durations);
  time.median_ns = std::llround(percentile(durations, 0.5));
  time.p95_ns = std::llround(percentile(durations, 0.95));
  time.spread_ns = static_cast<Nanoseconds>(percentile(durations, 0.75) - percentile(durations, 0.25));
}

}  // namespace nsys_explain::analysis
