#include "analysis/questions/question.hpp"

#include <algorithm>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {
namespace {

ShownTable launch_storm_shown() {
  const auto& table = schema::launch_storm;
  return {.table = table.table_name(),
          .findings = {"launch-storm"},
          .view = "latency",
          .list = "launches",
          .folding = {.columns = {{"trace_rank", schema::trace_rank, FoldedColumn::By::key},
                                  {"launches", table.launches},
                                  {"launches_per_second", table.launches_per_second},
                                  {"storm", table.storm}},
                      .order = "launches_per_second",
                      .most = every_row}};
}

void find_launch_storm(const JobReport& report, std::vector<Finding>& findings) {
  const Table rows = sums_of(report.tables, report, launch_storm_shown());
  std::vector<std::int32_t> storming;
  for (std::size_t i = 0; i < rows.row_count(); ++i)
    if (column<std::int64_t>(rows, "storm")[i] != 0)
      storming.push_back(static_cast<std::int32_t>(column<std::int64_t>(rows, "trace_rank")[i]));
  if (storming.empty()) return;
  std::sort(storming.begin(), storming.end());
  findings.push_back(
      {.id = "launch-storm",
       .severity = FindingSeverity::medium,
       .title = storming.size() == 1
                    ? fmt::format("rank {} launches so many short kernels that launching limits it", storming[0])
                    : fmt::format("{} ranks launch so many short kernels that launching limits them", storming.size()),
       .evidence = {fmt::format("up to {:.0f} launches per second (rank {})",
                                column<double>(rows, "launches_per_second")[0],
                                column<std::int64_t>(rows, "trace_rank")[0]),
                    fmt::format("ranks {}; rows: launch_storm", rank_list(storming))},
       .recommendation =
           "fuse small kernels (torch.compile, fused operators), batch more work per launch, or capture the loop in a CUDA graph"});
}

}  // namespace

Question launch_storm() {
  return {.shown = launch_storm_shown(), .find = find_launch_storm};
}

}  // namespace nsys_explain::analysis::questions
