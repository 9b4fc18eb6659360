#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "analysis/findings/finding_parts.hpp"
#include "analysis/questions/question.hpp"
#include "model/schema/declaration.hpp"

namespace nsys_explain::schema {

inline constexpr struct ShortKernels : Declaration {
  Integer kernels{*this, "kernels", "", "how many"};
  Integer total_ns{*this, "total_ns", "ns", "sum of their durations"};
} short_kernels{{"short_kernels", "Kernels below 5 us, which launching costs more than running"}};

}  // namespace nsys_explain::schema

namespace nsys_explain::analysis::questions {
namespace {

constexpr Nanoseconds launch_ns = 5'000;  // what a launch takes on the host, about

/// Of one trace rank; the pipeline puts column `trace_rank` in front and joins the ranks.
Table short_kernels_table(const RankEvents& events) {
  std::int64_t kernels = 0, total_ns = 0;
  for (const Kernel& kernel : events.device.kernels) {
    const Nanoseconds duration_ns = kernel.end_ns - kernel.start_ns;
    if (duration_ns >= launch_ns) continue;
    ++kernels;
    total_ns += duration_ns;
  }
  Table table = make_table(schema::short_kernels);
  RowWriter(table) << kernels << total_ns;
  return table;
}

/// Of the whole job: all rows are there.
void find_short_kernels(const JobReport& report, std::vector<Finding>& findings) {
  const Table* const table = find_table(report.tables, schema::short_kernels);
  if (table == nullptr) return;
  std::int64_t total_ns = 0;
  for (const std::int64_t of_rank_ns : column(*table, schema::short_kernels.total_ns)) total_ns += of_rank_ns;
  const double part = share(total_ns, windows_of(report).ranks_ns);
  if (part < spent_time.medium) return;
  findings.push_back({.id = "short-kernels",
                      .severity = severity_of(part),
                      .title = fmt::format("{:.1f}% of GPU time is kernels below 5 us", 100 * part),
                      .evidence = {"rows: short_kernels"},
                      .recommendation = "fuse them, or launch them in CUDA graphs",
                      .cost_ns = total_ns});
}

}  // namespace

Question short_kernels() {
  return {.shown = {.table = schema::short_kernels.table_name(), .findings = {"short-kernels"}},
          .rows = short_kernels_table,
          .find = find_short_kernels};
}

}  // namespace nsys_explain::analysis::questions
