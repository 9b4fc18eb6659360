#include "analysis/questions/question.hpp"

#include <algorithm>

#include "analysis/findings/finding_parts.hpp"
#include "analysis/tables/tables.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {
namespace {

constexpr double overhead_worth_telling = 0.05;  // of the windows of all processes

ShownTable profiler_overhead_shown() {
  const auto& table = schema::profiler_overhead;
  using By = FoldedColumn::By;
  return {.table = table.table_name(),
          .findings = {"profiler-overhead"},
          .view = "host",
          .list = "overheads",
          .folding = {.columns = {{"profiler", table.profiler, By::key},
                                  {"name", table.name, By::key},
                                  {"count", table.count},
                                  {"total_ns", table.union_ns},
                                  {"in_window_ns", table.in_window_ns},
                                  {"max_ns", table.max_ns, By::largest}},
                      .order = "total_ns",
                      .most = every_row}};
}

void find_profiler_overhead(const JobReport& report, std::vector<Finding>& findings) {
  const Table sums = sums_of(report.tables, report, profiler_overhead_shown());
  if (sums.row_count() == 0) return;
  const LateRanks late = late_by(report, {Cause::profiler_overhead});
  const auto of_profiler = [](const Table& table, std::size_t i) {
    return column(table, schema::profiler_overhead.profiler)[i] != 0;
  };
  const LatePart told{late, surplus_of(late, time_of_ranks(report, schema::profiler_overhead,
                                                           schema::profiler_overhead.in_window_ns, of_profiler))};
  const auto& is_profiler = column<std::int64_t>(sums, "profiler");
  Nanoseconds left_ns = -told.time_ns;
  for (std::size_t i = 0; i < is_profiler.size(); ++i)
    left_ns += is_profiler[i] != 0 ? column<std::int64_t>(sums, "in_window_ns")[i] : 0;
  const double part = share(left_ns, windows_of(report).processes_ns);
  if (part < overhead_worth_telling) return;
  Finding finding{
      .id = "profiler-overhead",
      .severity = part >= spent_time.high ? FindingSeverity::medium : FindingSeverity::low,
      .title = fmt::format("the profiler itself took thread time worth {:.1f}% of the run: times are distorted{}",
                           100 * part, told.beside()),
      .evidence =
          {fmt::format(
               "{:.3f} seconds between the first and the last GPU activity of the processes ({}), over all threads",
               seconds(left_ns), windows_of(report).processes),
           "rows: profiler_overhead where profiler = 1"},
      .recommendation =
          "trace less (only -t cuda,nvtx; no backtraces, no memory usage), and capture a window after warm-up"};
  const auto most = static_cast<std::size_t>(
      std::find_if(is_profiler.begin(), is_profiler.end(), [](auto is) { return is != 0; }) - is_profiler.begin());
  if (most < is_profiler.size()) {
    finding.evidence.insert(finding.evidence.begin() + 1,
                            fmt::format("most of all is '{}' ({:.3f} seconds)", column<std::string>(sums, "name")[most],
                                        seconds(column<std::int64_t>(sums, "total_ns")[most])));
  }
  findings.push_back(std::move(finding));
}

}  // namespace

Question profiler_overhead() {
  return {.shown = profiler_overhead_shown(), .rows = overhead_table, .of_hosts = true, .find = find_profiler_overhead};
}

}  // namespace nsys_explain::analysis::questions
