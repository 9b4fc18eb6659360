#include "report/step_sections.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "model/schema/job.hpp"
#include "model/schema/links.hpp"
#include "report/markdown_parts.hpp"
#include "report/markdown_table.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {
namespace {

using Align = MarkdownTable::Align;

std::string gigabytes(double gbs) {
  return std::isnan(gbs) ? "-" : fmt::format("{:.3g} GB/s", gbs);
}

std::string size_from(std::int64_t from_bytes) {
  return from_bytes < 0 ? "not recorded" : format_bytes(from_bytes);
}

}  // namespace

std::string step_budget_section(const JobReport& report) {
  const Table* budget = find_table(report.tables, schema::step_budget);
  if (budget == nullptr || budget->row_count() == 0) return {};
  const auto& columns = schema::step_budget;
  const std::int64_t steps = column(*budget, columns.steps).front();
  if (steps <= 0) return {};
  struct Part {
    const char* name;
    const schema::Integer& column;
  };
  const std::array parts{Part{"compute", columns.compute_ns},
                         Part{"transfer of collectives", columns.transfer_ns},
                         Part{"arrival skew", columns.arrival_skew_ns},
                         Part{"inconclusive", columns.inconclusive_ns},
                         Part{"launch-paced", columns.launch_paced_ns},
                         Part{"copies", columns.copy_ns},
                         Part{"opaque graphs", columns.opaque_graph_ns},
                         Part{"idle otherwise", columns.idle_ns},
                         Part{"in all", columns.window_ns}};
  MarkdownTable table;
  table.columns = {{"part", Align::left}, {"mean"}, {"share"}, {"most"}, {"on rank"}};
  const auto& windows = column(*budget, columns.window_ns);
  const std::int64_t window_ns = std::accumulate(windows.begin(), windows.end(), std::int64_t{0});
  for (const Part& part : parts) {
    const auto& times = column(*budget, part.column);
    const std::int64_t sum_ns = std::accumulate(times.begin(), times.end(), std::int64_t{0});
    if (sum_ns == 0) continue;
    const auto most = std::max_element(times.begin(), times.end());
    const std::int64_t of_step_ns = sum_ns / std::ssize(times) / steps;
    table.rows.push_back(
        {part.name, format_duration(of_step_ns), format_share(sum_ns, window_ns), format_duration(*most / steps),
         fmt::format("{}", column(*budget, columns.trace_rank)[static_cast<std::size_t>(most - times.begin())])});
  }
  return heading(
             "A step",
             "Every nanosecond of a rank once, divided by the steps: where a decode step makes a token, of a token. Arrival skew: compute waited for a collective whose last member had not entered; transfer: it had. Launch-paced: the host had not launched what ran next. Inconclusive: not matched, or too short for the clocks.") +
         table.to_string();
}

std::string slack_section(const JobReport& report) {
  const Table* slack = find_table(report.tables, schema::slack);
  if (slack == nullptr || slack->row_count() == 0) return {};
  const auto& columns = schema::slack;
  std::vector<std::size_t> rows(slack->row_count());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  const auto weight = [&](std::size_t row) {
    return column(*slack, columns.instances)[row] * column(*slack, columns.transfer_p50_ns)[row];
  };
  const std::vector<std::size_t> shown =
      most_telling(rows, [&](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
  MarkdownTable table;
  table.columns = {{"communicator", Align::left},
                   {"operation", Align::left},
                   {"size from"},
                   {"count"},
                   {"without slack"},
                   {"transfer"},
                   {"slack p10"},
                   {"slack p50"},
                   {"required"},
                   {"measured"}};
  for (const std::size_t row : shown) {
    table.rows.push_back(
        {markdown_text(column(*slack, columns.communicator)[row], 20),
         std::string(column(*slack, columns.operation)[row]), size_from(column(*slack, columns.from_bytes)[row]),
         format_count(column(*slack, columns.instances)[row]),
         format_share(column(*slack, columns.without_slack)[row], column(*slack, columns.instances)[row]),
         format_duration(column(*slack, columns.transfer_p50_ns)[row]),
         format_duration(column(*slack, columns.slack_p10_ns)[row]),
         format_duration(column(*slack, columns.slack_p50_ns)[row]),
         gigabytes(column(*slack, columns.required_gbs)[row]), gigabytes(column(*slack, columns.measured_gbs)[row])});
  }
  return heading(
             "Slack of collectives",
             "How much longer a collective could take, at most, before any compute begins later. Required: the bus bandwidth, at least, at which nine of ten delay nothing. Without slack: compute began at once.") +
         table.to_string() + rest_note(rows.size(), shown.size(), "table `slack` of store.h5");
}

}  // namespace nsys_explain::report
