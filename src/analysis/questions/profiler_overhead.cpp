#include "analysis/questions/question.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "analysis/findings/finding_sizes.hpp"
#include "analysis/findings/late_parts.hpp"
#include "analysis/tables/os_runtime.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {
namespace {

constexpr double overhead_worth_telling = 0.05;  // of the windows of all processes

void find_profiler_overhead(const JobReport& report, std::vector<Finding>& findings) {
  const ActivitySummary& activity = report.activity;
  const LateRanks late = late_by(report, {Cause::profiler_overhead});
  const auto of_profiler = [](const Table& table, std::size_t i) {
    return column(table, schema::profiler_overhead.profiler)[i] != 0;
  };
  const LatePart told{late, surplus_of(late, time_of_ranks(report, schema::profiler_overhead,
                                                           schema::profiler_overhead.in_window_ns, of_profiler))};
  const Nanoseconds left_ns = activity.profiler_in_window_ns - told.time_ns;
  const double part = share(left_ns, windows_of(report).processes_ns);
  if (part < overhead_worth_telling) return;
  const auto largest = std::find_if(activity.overheads.begin(), activity.overheads.end(),
                                    [](const NamedTotal& overhead) { return overhead.kind == "profiler"; });
  Finding finding{
      .id = "profiler-overhead",
      .severity = part >= spent_time.high ? FindingSeverity::medium : FindingSeverity::low,
      .title = fmt::format("the profiler itself took thread time worth {:.1f}% of the run: times are distorted{}",
                           100 * part, told.beside()),
      .evidence =
          {fmt::format(
               "{:.3f} seconds between the first and the last GPU activity of the processes ({}), over all threads",
               seconds(left_ns), activity.processes.size()),
           "rows: profiler_overhead where profiler = 1"},
      .recommendation =
          "trace less (only -t cuda,nvtx; no backtraces, no memory usage), and capture a window after warm-up"};
  if (largest != activity.overheads.end()) {
    finding.evidence.insert(finding.evidence.begin() + 1, fmt::format("most of all is '{}' ({:.3f} seconds)",
                                                                      largest->name, seconds(largest->total_ns)));
  }
  findings.push_back(std::move(finding));
}

}  // namespace

Question profiler_overhead() {
  return {.shown = {.table = "profiler_overhead", .findings = {"profiler-overhead"}, .view = "host"},
          .rows = overhead_table,
          .of_hosts = true,
          .find = find_profiler_overhead};
}

}  // namespace nsys_explain::analysis::questions
