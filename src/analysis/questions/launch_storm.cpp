#include "analysis/questions/question.hpp"

#include <fmt/format.h>

#include "analysis/findings/late_parts.hpp"

namespace nsys_explain::analysis::questions {
namespace {

void find_launch_storm(const JobReport& report, std::vector<Finding>& findings) {
  const LaunchSummary& launches = report.activity.launches;
  if (launches.storming.empty()) return;
  findings.push_back(
      {.id = "launch-storm",
       .severity = FindingSeverity::medium,
       .title =
           launches.storming.size() == 1
               ? fmt::format("rank {} launches so many short kernels that launching limits it", launches.storming[0])
               : fmt::format("{} ranks launch so many short kernels that launching limits them",
                             launches.storming.size()),
       .evidence = {fmt::format("up to {:.0f} launches per second (rank {})", launches.largest_rate,
                                launches.largest_trace_rank),
                    fmt::format("ranks {}; rows: launch_storm", rank_list(launches.storming))},
       .recommendation =
           "fuse small kernels (torch.compile, fused operators), batch more work per launch, or capture the loop in a CUDA graph"});
}

}  // namespace

Question launch_storm() {
  return {.shown = {.table = "launch_storm", .findings = {"launch-storm"}, .view = "latency"},
          .find = find_launch_storm};
}

}  // namespace nsys_explain::analysis::questions
