#include "analysis/questions/question.hpp"

#include <numeric>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {
namespace {

constexpr double allocations_worth_telling = 0.02;  // of the windows of all processes

ShownTable allocations_shown() {
  const auto& table = schema::allocations;
  return {.table = table.table_name(),
          .findings = {"allocation-churn"},
          .view = "host",
          .list = "allocations",
          .folding = {.columns = {{"name", table.name, FoldedColumn::By::key},
                                  {"count", table.count},
                                  {"total_ns", table.total_ns},
                                  {"max_ns", table.max_ns, FoldedColumn::By::largest},
                                  {"in_window_ns", table.in_window_ns}},
                      .order = "total_ns"}};
}

void find_allocation_churn(const JobReport& report, std::vector<Finding>& findings) {
  const Table sums = sums_of(report.tables, report, allocations_shown());
  if (sums.row_count() == 0) return;
  const LateRanks late = late_by(report, {Cause::allocation});
  const auto all = [](const Table&, std::size_t) { return true; };
  const LatePart told{
      late, surplus_of(late, time_of_ranks(report, schema::allocations, schema::allocations.in_window_ns, all))};
  const auto all_of = [&](std::string_view figure) {
    const auto& values = column<std::int64_t>(sums, figure);
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
  };
  const Nanoseconds left_ns = all_of("in_window_ns") - told.time_ns;
  const double part = share(left_ns, windows_of(report).processes_ns);
  if (part < allocations_worth_telling) return;
  const std::string_view largest = column<std::string>(sums, "name")[0];
  findings.push_back(
      {.id = "allocation-churn",
       .severity = severity_of(part),
       .title = fmt::format("the host spends {:.1f}% of the run making and freeing memory, streams and events{}",
                            100 * part, told.beside()),
       .evidence = {fmt::format("{:.3f} seconds between the first and the last GPU activity of the processes ({})",
                                seconds(left_ns), windows_of(report).processes),
                    fmt::format("{} calls in all, most time in {} ({} calls)", all_of("count"), largest,
                                figure_of(sums, largest, "count")),
                    "rows: allocations"},
       .recommendation =
           "allocate before the loop, use a caching or stream-ordered allocator (cudaMallocAsync), and capture after warm-up"});
}

}  // namespace

Question allocations() {
  return {.shown = allocations_shown(), .find = find_allocation_churn};
}

}  // namespace nsys_explain::analysis::questions
