#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <variant>
#include <vector>

#include "model/p_value_text.hpp"
#include "report/markdown_parts.hpp"
#include "report/markdown_sections.hpp"
#include "report/markdown_table.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

using Align = MarkdownTable::Align;

constexpr std::size_t name_width = 52;

/// A cell as its column's unit wants it.
std::string cell_text(const Table& sums, const ShownTable::Cell& cell, std::size_t row) {
  const std::size_t c = sums.schema.index_of(cell.column);
  const std::string& unit = sums.schema.columns[c].unit;
  if (const auto* texts = std::get_if<TextColumn>(&sums.columns[c])) {
    const std::string text((*texts)[row]);
    return cell.is_code ? markdown_code(text, name_width) : markdown_text(text, name_width);
  }
  if (const auto* reals = std::get_if<std::vector<double>>(&sums.columns[c])) {
    const double value = (*reals)[row];
    if (!std::isfinite(value)) return "-";
    return unit == "share"            ? fmt::format("{:.1f}%", 100 * value)
           : unit == "%"              ? fmt::format("{:.1f}%", value)
           : unit == "ns"             ? format_duration(static_cast<Nanoseconds>(value))
           : unit == "GB/s"           ? fmt::format("{:.3g} GB/s", value)
           : cell.column == "p_value" ? p_value_text(value)
                                      : fmt::format("{:.4g}", value);
  }
  const std::int64_t value = std::get<std::vector<std::int64_t>>(sums.columns[c])[row];
  if (!cell.if_set.empty()) return value != 0 ? std::string(cell.if_set) : "-";
  if (!cell.per.empty()) {
    const std::int64_t duration_ns = column<std::int64_t>(sums, cell.per)[row];
    return fmt::format("{:.3g} GB/s",
                       duration_ns > 0 ? static_cast<double>(value) / static_cast<double>(duration_ns) : 0);
  }
  return unit == "ns" ? format_duration(value) : unit == "bytes" ? format_bytes(value) : format_count(value);
}

}  // namespace

static std::string drawn_rows(const JobReport& report, const ShownTable& shown) {
  const Table sums = sums_of(report.tables, report, shown);
  if (sums.row_count() == 0) return {};
  const std::string_view order = shown.folding.order;
  const auto* weights =
      order.empty() ? nullptr : std::get_if<std::vector<std::int64_t>>(&sums.columns[sums.schema.index_of(order)]);
  if (weights != nullptr && weights->front() == 0) return {};
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
  return table.to_string() + rest_note(sums.row_count(), lines, shown.rest);
}

std::string shown_section(const JobReport& report, const ShownTable& shown) {
  const std::string rows = shown.title.empty() ? "" : drawn_rows(report, shown);
  if (rows.empty()) return {};
  return heading(shown.title, shown.derivation) + rows + (shown.note.empty() ? "" : wrap(shown.note, "\n", ""));
}

std::string nvlink_section(const JobReport& report) {
  const NvlinkReport& nvlink = report.nvlink;
  if (nvlink.message.empty()) return {};
  std::string derivation = "From the NVLink counters of nsys' GPU metrics, during and outside of collectives.";
  if (nvlink.available)
    derivation +=
        " Percent of the peak of all links of a GPU in one direction, time-weighted with idle samples included; waiting for others inside a collective counts as during it. p is the chance of as high a correlation without any relation. GB/s are estimated from the GPU's name.";
  std::string out = heading("NVLink during NCCL", derivation);
  out += wrap((nvlink.available ? "" : "Not available: ") + markdown_text(nvlink.message, sentence_width), "", "");
  for (const ShownTable& shown : report.shown)
    if (shown.in == "nvlink") out += '\n' + drawn_rows(report, shown);
  return out;
}

}  // namespace nsys_explain::report
