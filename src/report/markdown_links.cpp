#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "model/p_value_text.hpp"
#include "report/markdown_parts.hpp"
#include "report/markdown_sections.hpp"
#include "report/markdown_table.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

using Align = MarkdownTable::Align;

std::string number_or_dash(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

/// A p-value from permutations cannot be smaller than one of them.
std::string p_text(const std::optional<double>& p_value) {
  return p_value ? p_value_text(*p_value) : "-";
}

std::string nvlink_operations(const NvlinkReport& nvlink) {
  MarkdownTable table;
  table.columns = {{"direction", Align::left}, {"operation", Align::left}, {"GPUs"}, {"mean during"}};
  for (const NvlinkOperationUse& use : nvlink.by_operation) {
    table.rows.push_back({markdown_text(use.metric, 40), markdown_text(use.operation, 20), fmt::format("{}", use.gpus),
                          fmt::format("{:.1f}%", use.mean_during_percent)});
  }
  return table.rows.empty() ? "" : '\n' + table.to_string();
}

}  // namespace

std::string nvlink_section(const JobReport& report) {
  const NvlinkReport& nvlink = report.nvlink;
  if (nvlink.message.empty()) return {};
  std::string derivation = "From the NVLink counters of nsys' GPU metrics, during and outside of collectives.";
  if (!nvlink.gpus.empty()) {
    derivation +=
        " Percent of the peak of all links of a GPU in one direction, time-weighted with idle samples included; waiting for others inside a collective counts as during it. p is the chance of as high a correlation without any relation. GB/s are estimated from the GPU's name.";
  }
  std::string out = heading("NVLink during NCCL", derivation);
  out += wrap((nvlink.available ? "" : "Not available: ") + markdown_text(nvlink.message, sentence_width), "", "");
  if (nvlink.gpus.empty()) return out;
  MarkdownTable table;
  table.columns = {
      {"rank"}, {"direction", Align::left}, {"during"}, {"outside"}, {"estimated during"}, {"correlation"}, {"lag"},
      {"p"}};
  const std::size_t shown = std::min(nvlink.gpus.size(), shown_rows);
  for (std::size_t i = 0; i < shown; ++i) {
    const NvlinkUse& use = nvlink.gpus[i];
    table.rows.push_back(
        {fmt::format("{}", use.trace_rank), markdown_text(use.metric, 40),
         number_or_dash(use.mean_during_percent, "{:.1f}%"), number_or_dash(use.mean_outside_percent, "{:.1f}%"),
         number_or_dash(use.estimated_during_gbs, "{:.3g} GB/s"), number_or_dash(use.correlation, "{:.2f}"),
         use.correlation ? format_duration(use.lag_ns) : "-", p_text(use.p_value)});
  }
  return out + '\n' + table.to_string() + rest_note(nvlink.gpus.size(), shown, "`nvlink` in report.json") +
         nvlink_operations(nvlink);
}

std::string network_section(const JobReport& report) {
  if (report.network.empty()) return {};
  std::string out = heading(
      "Network during NCCL",
      "From the samples of NICs and switches: means over ports while the rank that a port follows best is in a collective, and while it is in none. Ports that follow: those that correlate with the collectives of a rank of their node beyond chance.");
  MarkdownTable table;
  table.columns = {{"metric", Align::left}, {"ports"}, {"during"}, {"outside"}, {"unit", Align::left},
                   {"ports that follow"}};
  const std::size_t shown = std::min(report.network.size(), shown_rows);
  for (std::size_t i = 0; i < shown; ++i) {
    const NetworkUse& use = report.network[i];
    table.rows.push_back({markdown_text(use.metric, 40), fmt::format("{}", use.ports),
                          number_or_dash(use.mean_during, "{:.4g}"), number_or_dash(use.mean_outside, "{:.4g}"),
                          markdown_text(use.unit, 20), fmt::format("{}", use.correlated_ports)});
  }
  return out + table.to_string() + rest_note(report.network.size(), shown, "table `network` of store.h5");
}

}  // namespace nsys_explain::report
