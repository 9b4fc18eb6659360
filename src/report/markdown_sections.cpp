#include "report/markdown.hpp"

#include <cmath>

#include <fmt/format.h>

#include "model/text.hpp"
#include "nsys_explain/model/names.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

using Align = MarkdownTable::Align;

/// Ranks that cost or lose the most time, most first.
std::vector<RankSummary> telling_ranks(const JobReport& report) {
  return most_telling(report.ranks, [](const RankSummary& a, const RankSummary& b) {
    return std::pair(-a.caused_wait_ns, -a.wait_ns) < std::pair(-b.caused_wait_ns, -b.wait_ns);
  });
}

std::string rank_order_note(const JobReport& report) {
  return report.ranks.size() > shown_rows ? " Shown are those that cause the most waiting." : "";
}

std::string time_and_share(Nanoseconds part_ns, Nanoseconds whole_ns) {
  return fmt::format("{} {:>6}", format_duration(part_ns), format_share(part_ns, whole_ns));
}

std::string bandwidth(const std::optional<double>& gbs) {
  return gbs ? fmt::format("{:.3g} GB/s", *gbs) : "-";
}

/// A command that can be copied though it spans lines.
std::string shell_lines(const std::string& command) {
  std::string lines = wrap(command, "  ", "    ", 96);
  for (std::size_t end = lines.find('\n'); end + 1 < lines.size(); end = lines.find('\n', end + 3))
    lines.insert(end, " \\");
  return lines;
}

std::string rank_list(const std::vector<std::int32_t>& ranks) {
  // Runs as "0-7": a communicator of neighbours stays short.
  std::string result;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!result.empty()) result += ' ';
    result += end - i > 1 ? fmt::format("{}-{}", ranks[i], ranks[end - 1]) : fmt::format("{}", ranks[i]);
    i = end;
  }
  return plain_text(result, 30);
}

/// A finding without what only the JSON needs: the evidence of those that matter, most of the first. `told_next`: what
/// to do by the verdict, which is not told again.
std::string finding_item(const Finding& finding, std::size_t number, std::size_t evidence_lines,
                         std::string_view told_next) {
  const std::string first = fmt::format("{}. ", number);
  const std::string indent(first.size(), ' ');
  std::string out =
      wrap(fmt::format("**[{}]** {}", severity_name(finding.severity), markdown_text(finding.title, sentence_width)),
           first, indent);
  if (finding.severity > FindingSeverity::medium) return out;
  const std::size_t shown = std::min(finding.evidence.size(), evidence_lines);
  for (std::size_t e = 0; e < shown; ++e)
    out += wrap(markdown_text(finding.evidence[e], sentence_width), indent + "- ", indent + "  ");
  if (finding.evidence.size() > shown)
    out += wrap(fmt::format("... and {} more (`findings` in report.json)", finding.evidence.size() - shown),
                indent + "- ", indent + "  ");
  if (!finding.recommendation.empty() && finding.recommendation != told_next)
    out += wrap("**Next:** " + markdown_text(finding.recommendation, sentence_width), indent + "- ", indent + "  ");
  return out;
}

}  // namespace

std::string findings_section(const JobReport& report) {
  // Two screens of a terminal, some 100 lines, with what stands above.
  constexpr std::size_t most_findings = 8, evidence_of_first = 5, evidence_of_others = 3;
  if (report.findings.empty()) return {};
  std::string out = heading(
      "Findings", "What is missing, then what saves most when fixed, then by severity and cost; low ones by title.");
  const std::size_t shown = std::min(report.findings.size(), most_findings);
  for (std::size_t i = 0; i < shown; ++i)
    out +=
        finding_item(report.findings[i], i + 1, i == 0 ? evidence_of_first : evidence_of_others, report.verdict.next);
  return out + rest_note(report.findings.size(), shown, "`findings` in report.json");
}

std::string stragglers_section(const Overview& overview) {
  if (overview.stragglers.empty()) return {};
  std::string out = heading(
      "Late ranks",
      "Lateness: what it worked longer than its peers. Waited: GPU time of others who waited for it. The p-value bounds the chance to be as late if everybody were alike. First and last are job time.");
  MarkdownTable table;
  table.columns = {{"late", Align::left},
                   {"pattern", Align::left},
                   {"cause", Align::left},
                   {"waited"},
                   {"lateness"},
                   {"last in"},
                   {"p-value"},
                   {"first"},
                   {"last"}};
  const std::size_t shown = std::min(overview.stragglers.size(), shown_rows);
  for (std::size_t i = 0; i < shown; ++i) {
    const Straggler& s = overview.stragglers[i];
    table.rows.push_back({markdown_text(culprit_name(s), 60), std::string(pattern_name(s.pattern)),
                          std::string(cause_name(s.cause)), format_duration(s.delay_cost_ns),
                          format_duration(s.own_lateness_ns),
                          s.level == Level::gpu ? fmt::format("{:.1f}%", 100 * s.last_share) : "-",
                          p_value_text(s.p_value), format_duration(s.first_ns), format_duration(s.last_ns)});
  }
  return out + table.to_string() + rest_note(overview.stragglers.size(), shown, "`stragglers` in report.json");
}

std::string budget_section(const JobReport& report) {
  if (report.ranks.empty()) return {};
  std::string out = heading(
      "Where the time of each rank went",
      "Unions of GPU activity from the first start to the last end; compute, exposed communication, copies, graphs and idle add up to the window. Exposed is communication without compute at the same time, waiting included." +
          rank_order_note(report));
  const bool graphs = std::any_of(report.ranks.begin(), report.ranks.end(),
                                  [](const RankSummary& rank) { return rank.budget.opaque_graph_ns != 0; });
  MarkdownTable table;
  table.columns = {{"rank"}, {"window"}, {"compute"}, {"exposed comm."}, {"copies"}, {"idle"}, {"overlapped"}};
  if (graphs) table.columns.insert(table.columns.begin() + 5, {"opaque graphs"});
  const std::vector<RankSummary> ranks = telling_ranks(report);
  for (const RankSummary& rank : ranks) {
    const Budget& b = rank.budget;
    std::vector<std::string> row{
        fmt::format("{}", rank.trace_rank),        format_duration(b.window_ns),
        time_and_share(b.compute_ns, b.window_ns), time_and_share(b.exposed_communication_ns, b.window_ns),
        time_and_share(b.copy_ns, b.window_ns),    time_and_share(b.idle_ns, b.window_ns),
        format_duration(b.overlapped_ns)};
    if (graphs) row.insert(row.begin() + 5, time_and_share(b.opaque_graph_ns, b.window_ns));
    table.rows.push_back(std::move(row));
  }
  return out + table.to_string() + rest_note(report.ranks.size(), ranks.size(), "table `ranks` of store.h5");
}

std::string waits_section(const JobReport& report) {
  if (report.ranks.empty() || report.instances == 0) return {};
  std::string out = heading(
      "Who waits for whom",
      "Wait: from a rank's enter to the latest enter of each collective. Caused wait: what the others would not have waited without its lateness there. Passed on: late only because it had waited. Last counts collectives whose last arriver is resolved." +
          rank_order_note(report));
  MarkdownTable table;
  table.columns = {{"rank"}, {"arrivals"}, {"last"}, {"wait"}, {"caused wait"}, {"lateness"}, {"passed on"}};
  const std::vector<RankSummary> ranks = telling_ranks(report);
  for (const RankSummary& rank : ranks) {
    table.rows.push_back({fmt::format("{}", rank.trace_rank), format_count(rank.arrivals),
                          format_count(rank.last_arrivals), time_and_share(rank.wait_ns, rank.budget.window_ns),
                          format_duration(rank.caused_wait_ns), format_duration(rank.own_lateness_ns),
                          format_duration(rank.inherited_lateness_ns)});
  }
  return out + table.to_string() + rest_note(report.ranks.size(), ranks.size(), "table `ranks` of store.h5");
}

std::string operations_section(const JobReport& report) {
  if (report.by_operation.empty()) return {};
  std::string out = heading(
      "Collectives by operation",
      "Wait is summed over members, transfer (from the latest enter to the exit) counts once per collective. Bandwidths are total bytes over total transfer time (GB = 1e9, bus bandwidth as in nccl-tests); without recorded message sizes they are left out.");
  MarkdownTable table;
  table.columns = {{"operation", Align::left}, {"count"}, {"bytes"}, {"wait"}, {"transfer"},
                   {"algorithm bw"},           {"bus bw"}};
  for (const OperationSummary& o : report.by_operation) {
    table.rows.push_back({std::string(operation_name(o.operation)), format_count(o.instances),
                          o.bytes ? format_bytes(*o.bytes) : "-", format_duration(o.wait_ns),
                          format_duration(o.transfer_ns), bandwidth(o.algorithm_bandwidth_gbs),
                          bandwidth(o.bus_bandwidth_gbs)});
  }
  return out + table.to_string();
}

std::string communicators_section(const JobReport& report) {
  if (report.communicators.empty()) return {};
  std::string out = heading(
      "Communicators",
      "Evidence says what brought the members together: nccl_payload (recorded identity and size) is certain, order and kernel_name rest on equal sequences. A partial collective lacks members: who of them was late cannot be seen.");
  MarkdownTable table;
  table.columns = {
      {"communicator", Align::left}, {"seen/size"}, {"ranks", Align::left}, {"complete"}, {"partial"}, {"unmatched"},
      {"evidence", Align::left}};
  const bool has_names = std::any_of(report.communicators.begin(), report.communicators.end(),
                                     [](const CommunicatorSummary& c) { return !c.given_name.empty(); });
  if (has_names) table.columns.push_back({"called", Align::left});
  const std::vector<CommunicatorSummary> communicators = most_telling(
      report.communicators,
      [](const CommunicatorSummary& a, const CommunicatorSummary& b) { return a.instances > b.instances; });
  for (const CommunicatorSummary& c : communicators) {
    table.rows.push_back({markdown_code(c.name, 20), fmt::format("{}/{}", c.trace_ranks.size(), c.size),
                          rank_list(c.trace_ranks), format_count(c.complete), format_count(c.partial),
                          format_count(c.unmatched_arrivals), std::string(evidence_name(c.evidence))});
    if (has_names) table.rows.back().push_back(c.given_name.empty() ? "-" : markdown_code(c.given_name, 24));
  }
  return out + table.to_string() +
         rest_note(report.communicators.size(), communicators.size(), "table `communicators` of store.h5");
}

std::string host_processes_section(const JobReport& report) {
  if (report.host_processes.empty()) return {};
  std::string out = heading(
      "Processes without GPU work",
      "They are no ranks: nothing here rests on them, and who of them is late is not known. What their hosts did is in tables `nvtx_sum`, `nvtx_trace`, `cuda_api`, `os_runtime`, `cpu_functions` and `thread_states` of store.h5, as far as it was recorded, with these numbers as rank. `Inputs with problems` says why there is no GPU work.");
  MarkdownTable table;
  table.columns = {{"number"},  {"known by", Align::left}, {"host", Align::left},
                   {"process"}, {"program", Align::left},  {"file", Align::left}};
  const std::size_t shown = std::min(report.host_processes.size(), shown_rows);
  for (std::size_t i = 0; i < shown; ++i) {
    const TraceRankIdentity& p = report.host_processes[i];
    table.rows.push_back({fmt::format("{}", p.trace_rank), std::string(rank_source_name(p.rank_source)),
                          markdown_code(p.host, 16), fmt::format("{}", p.process_id), markdown_code(p.process_name, 28),
                          markdown_path(p.key.path, 28)});
  }
  return out + table.to_string() + rest_note(report.host_processes.size(), shown, "table `host_processes` of store.h5");
}

std::string inputs_section(const JobReport& report) {
  std::vector<InputReport> problems;
  for (const InputReport& input : report.inputs)
    if (input.status != InputStatus::ok) problems.push_back(input);
  if (problems.empty()) return {};
  std::stable_sort(problems.begin(), problems.end(),
                   [](const InputReport& a, const InputReport& b) { return a.status > b.status; });
  std::string out = heading("Inputs with problems",
                            "Failed inputs are not part of any number here; degraded ones are, as far as they go.");
  const std::size_t shown = std::min(problems.size(), shown_problems);
  for (std::size_t i = 0; i < shown; ++i) {
    out += wrap(fmt::format("**{}** {}: {}", status_name(problems[i].status), markdown_path(problems[i].path, 80),
                            markdown_text(problems[i].message, sentence_width)),
                "- ", "  ");
  }
  return out + rest_note(problems.size(), shown, "`inputs` in report.json");
}

std::string warnings_section(const JobReport& report) {
  if (report.warnings.empty()) return {};
  std::vector<Warning> warnings = report.warnings;
  std::stable_sort(warnings.begin(), warnings.end(), [](const Warning& a, const Warning& b) {
    return a.severity != b.severity ? a.severity > b.severity : a.count > b.count;
  });
  std::string out = heading(
      "Warnings",
      "Recorded in the traces, or met by the analysis; counted, worst first. data_loss means that events are missing and totals are short.");
  const std::size_t shown = std::min(warnings.size(), shown_problems);
  for (std::size_t i = 0; i < shown; ++i) {
    const Warning& warning = warnings[i];
    const std::string times = warning.count > 1 ? ", " + format_count(warning.count) + " times" : "";
    out += wrap(fmt::format("**{}** ({}{}) {}", severity_name(warning.severity), warning_source_name(warning.source),
                            times, markdown_text(warning.message, sentence_width)),
                "- ", "  ");
  }
  return out + rest_note(warnings.size(), shown, "`warnings` in report.json");
}

std::string capture_section(const JobReport& report) {
  const std::vector<CaptureAdvice> advice = capture_advice(report);
  if (advice.empty()) return {};
  std::string out =
      heading("What to capture next time",
              "Commands for what these traces do not hold; PROGRAM and REPORT.nsys-rep are yours to fill in.");
  for (const CaptureAdvice& item : advice) {
    out += wrap(item.missing, "- ", "  ");
    out += "\n  ```sh\n";
    for (const std::string& command : item.commands) out += shell_lines(command);
    out += "  ```\n\n";
  }
  out.pop_back();
  return out;
}

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
