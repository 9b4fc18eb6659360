#include "report/activity_sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <variant>
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

/// A cell as its column's unit wants it.
std::string cell_text(const Table& sums, const ShownTable::Cell& cell, std::size_t row) {
  const std::size_t c = sums.schema.index_of(cell.column);
  if (const auto* texts = std::get_if<TextColumn>(&sums.columns[c])) {
    const std::string text((*texts)[row]);
    return cell.is_code ? markdown_code(text, name_width) : markdown_text(text, name_width);
  }
  const std::int64_t value = std::get<std::vector<std::int64_t>>(sums.columns[c])[row];
  if (!cell.per.empty()) {
    const std::int64_t duration_ns = column<std::int64_t>(sums, cell.per)[row];
    return fmt::format("{:.3g} GB/s",
                       duration_ns > 0 ? static_cast<double>(value) / static_cast<double>(duration_ns) : 0);
  }
  const std::string& unit = sums.schema.columns[c].unit;
  return unit == "ns" ? format_duration(value) : unit == "bytes" ? format_bytes(value) : format_count(value);
}

std::string shown_section(const JobReport& report, const ShownTable& shown) {
  if (shown.title.empty()) return {};
  const Table sums = sums_of(report.tables, report, shown);
  if (sums.row_count() == 0) return {};
  if (!shown.folding.order.empty() && column<std::int64_t>(sums, shown.folding.order)[0] == 0) return {};
  MarkdownTable table;
  for (const ShownTable::Cell& cell : shown.cells) {
    const bool is_text = sums.schema.columns[sums.schema.index_of(cell.column)].kind == ColumnKind::text;
    table.columns.push_back({std::string(cell.heading), is_text ? Align::left : Align::right});
  }
  const std::size_t lines = std::min(sums.row_count(), shown.lines);
  for (std::size_t row = 0; row < lines; ++row) {
    std::vector<std::string>& cells = table.rows.emplace_back();
    for (const ShownTable::Cell& cell : shown.cells) cells.push_back(cell_text(sums, cell, row));
  }
  return heading(shown.title, shown.derivation) + table.to_string() + rest_note(sums.row_count(), lines, shown.rest) +
         (shown.note.empty() ? "" : wrap(shown.note, "\n", ""));
}

}  // namespace nsys_explain::report
