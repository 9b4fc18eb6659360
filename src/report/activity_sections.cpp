#include "report/activity_sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "model/p_value_text.hpp"
#include "report/markdown_parts.hpp"
#include "report/markdown_table.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

using Align = MarkdownTable::Align;

constexpr std::size_t few_rows = 8;  ///< many short sections must stay readable together
constexpr std::size_t name_width = 52;

std::string percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

std::string nothing(std::string_view reason) {
  return wrap(reason, "", "");
}

/// The first rows of `elements` as a table; `to_row` makes a row of cells.
template <class T, class ToRow>
std::string short_table(std::vector<MarkdownTable::Column> columns, const std::vector<T>& elements, const ToRow& to_row,
                        std::string_view where, std::size_t most_rows = few_rows) {
  MarkdownTable table{std::move(columns), {}};
  const std::size_t shown = std::min(elements.size(), most_rows);
  for (std::size_t i = 0; i < shown; ++i) table.rows.push_back(to_row(elements[i]));
  return table.to_string() + rest_note(elements.size(), shown, where);
}

}  // namespace

std::string kernels_section(const JobReport& report) {
  const ActivitySummary& a = report.activity;
  if (a.kernels.empty()) return {};
  return heading(
             "Top kernels",
             "Sums of durations over all ranks; share is of the sum of all kernels. Tail is what the slowest executions cost: (p99 - median) x count.") +
         short_table(
             {{"kernel", Align::left}, {"total"}, {"share"}, {"count"}, {"longest"}, {"tail"}}, a.kernels,
             [](const KernelSummary& k) -> std::vector<std::string> {
               return {markdown_code(k.name, name_width),
                       format_duration(k.total_ns),
                       percent(k.share),
                       format_count(k.count),
                       format_duration(k.max_ns),
                       format_duration(static_cast<Nanoseconds>(k.tail_score_ns))};
             },
             "tables `kernels`, `kernels_by_launch`, `kernel_histogram`, `kernel_pacing` of store.h5");
}

std::string barriers_section(const JobReport& report) {
  const ActivitySummary& a = report.activity;
  const std::string out = heading(
      "Top CPU-GPU barriers",
      "Where the host stopped: calls that wait for the GPU, blocking copies, waits in the operating system on threads that launch, and pauses of 100 us or more without a launching call, which hold the others. Sums over all processes.");
  if (a.barriers.empty()) {
    return out + nothing("None: no such call was recorded, or no CUDA calls at all (capture with -t cuda).");
  }
  return out + short_table(
                   {{"kind", Align::left}, {"name", Align::left}, {"total"}, {"count"}, {"longest"}}, a.barriers,
                   [](const NamedTotal& b) -> std::vector<std::string> {
                     return {b.kind, markdown_code(b.name, name_width), format_duration(b.total_ns),
                             format_count(b.count), format_duration(b.max_ns)};
                   },
                   "table `barriers` of store.h5");
}

std::string idle_section(const JobReport& report) {
  const ActivitySummary& a = report.activity;
  const bool any = std::any_of(a.idle_causes.begin(), a.idle_causes.end(), [](const auto& c) { return c.count > 0; });
  if (!any) return {};
  return heading(
             "Idle GPU time by cause",
             "launch_starved: the host launched the next activity only after the GPU had run dry. dependency_stalled: launched in time, waiting for another stream. other: neither, or the launch is not in the trace.") +
         short_table(
             {{"cause", Align::left}, {"total"}, {"gaps"}, {"longest"}}, a.idle_causes,
             [](const NamedTotal& c) -> std::vector<std::string> {
               return {c.name, format_duration(c.total_ns), format_count(c.count), format_duration(c.max_ns)};
             },
             "table `idle_causes` of store.h5") +
         wrap("Single gaps: table `idle_gaps`; over time: table `gpu_utilisation` of store.h5.", "\n", "");
}

std::string speeds_section(const JobReport& report) {
  const ActivitySummary& a = report.activity;
  if (a.gpu_speeds.empty()) return {};
  std::vector<GpuSpeed> slowest = a.gpu_speeds;
  std::stable_sort(slowest.begin(), slowest.end(),
                   [](const GpuSpeed& x, const GpuSpeed& y) { return x.ratio > y.ratio; });
  return heading(
             "Same kernels on different GPUs",
             "Compute kernels of equal name, grid and block: the ratio to the peers' medians, slowest first. Slow: significant, at least 2%, and unlike the other ranks.") +
         short_table(
             {{"rank"}, {"ratio"}, {"p-value"}, {"kernels"}, {"verdict", Align::left}}, slowest,
             [](const GpuSpeed& s) -> std::vector<std::string> {
               return {fmt::format("{}", s.trace_rank), fmt::format("{:.3f}", s.ratio), p_value_text(s.p_value),
                       format_count(s.kernels), s.slow ? "slow" : "alike"};
             },
             "tables `gpu_speed`, `kernel_peers` and `kernel_imbalance` of store.h5");
}

std::string cpu_section(const JobReport& report) {
  const ActivitySummary& a = report.activity;
  if (a.cpu_functions.empty()) return {};
  return heading(
             "Functions of the launching threads",
             "Where CPU samples found the threads that launch, over all processes; a sample counts for its period.") +
         short_table(
             {{"function", Align::left}, {"time"}, {"samples"}}, a.cpu_functions,
             [](const NamedTotal& f) -> std::vector<std::string> {
               return {markdown_code(f.name, name_width), format_duration(f.total_ns), format_count(f.count)};
             },
             "table `cpu_functions` of store.h5", 5);
}

std::string host_section(const JobReport& report) {
  const ActivitySummary& a = report.activity;
  if (a.api_calls.empty()) return {};
  return heading("CUDA calls of the host", "Runtime and driver calls by name, over all processes and threads.") +
         short_table(
             {{"call", Align::left}, {"total"}, {"count"}, {"longest"}}, a.api_calls,
             [](const NamedTotal& c) -> std::vector<std::string> {
               return {markdown_code(c.name, name_width), format_duration(c.total_ns), format_count(c.count),
                       format_duration(c.max_ns)};
             },
             "tables `cuda_api`, `kernel_launches`, `launch_latency` and `allocations` of store.h5", 5);
}

std::string transfers_section(const JobReport& report) {
  const ActivitySummary& a = report.activity;
  if (a.transfers.empty()) return {};
  return heading("Copies and sets", "By operation, over all ranks; bandwidth is bytes over the sum of durations.") +
         short_table(
             {{"operation", Align::left}, {"total"}, {"count"}, {"bytes"}, {"bandwidth"}}, a.transfers,
             [](const NamedTotal& t) -> std::vector<std::string> {
               const double gbs = t.total_ns > 0 ? static_cast<double>(t.bytes) / static_cast<double>(t.total_ns) : 0;
               return {markdown_code(t.name, name_width), format_duration(t.total_ns), format_count(t.count),
                       format_bytes(t.bytes), fmt::format("{:.3g} GB/s", gbs)};
             },
             "tables `memory_time`, `memory_transfers` and `copy_engines` of store.h5");
}

}  // namespace nsys_explain::report
