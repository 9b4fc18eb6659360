#include "report/markdown.hpp"

#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/schema/job.hpp"
#include "model/schema/links.hpp"
#include "report/report.hpp"
#include "report/side_files.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {
std::string heading(std::string_view title, std::string_view derivation) {
  return fmt::format("\n## {}\n\n{}\n", title, wrap(derivation, "", ""));
}

std::string rest_note(std::size_t all, std::size_t shown, std::string_view where) {
  if (all <= shown) return {};
  return wrap(fmt::format("... and {} more ({}).", format_count(static_cast<std::int64_t>(all - shown)), where), "\n",
              "");
}

namespace {

std::string padded(const std::string& text, std::size_t width, MarkdownTable::Align align) {
  const std::string padding(width - std::min(width, text_width(text)), ' ');
  return align == MarkdownTable::Align::right ? padding + text : text + padding;
}

}  // namespace

std::string MarkdownTable::to_string() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns) widths.push_back(std::max<std::size_t>(text_width(column.title), 2));
  for (const auto& row : rows)
    for (std::size_t c = 0; c < columns.size(); ++c) widths[c] = std::max(widths[c], text_width(row[c]));
  std::string header = "|";
  std::string rule = "|";
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const bool right = columns[c].align == Align::right;
    header += ' ' + padded(columns[c].title, widths[c], columns[c].align) + " |";
    rule += (right ? " " : " :") + std::string(widths[c] - 1, '-') + (right ? ": |" : " |");
  }
  std::string result = header + '\n' + rule + '\n';
  for (const auto& row : rows) {
    result += '|';
    for (std::size_t c = 0; c < columns.size(); ++c) result += ' ' + padded(row[c], widths[c], columns[c].align) + " |";
    result += '\n';
  }
  return result;
}

namespace {

using Align = MarkdownTable::Align;

std::string gigabytes(double gbs) {
  return std::isnan(gbs) ? "-" : fmt::format("{:.3g} GB/s", gbs);
}

std::string size_from(std::int64_t from_bytes) {
  return from_bytes < 0 ? "not recorded" : format_bytes(from_bytes);
}

/// Where a step's time goes, on average over the trace ranks and where it is most.
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

/// How much longer collectives could take, and the bandwidth that asks for.
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

std::string list_item(std::string_view text) {
  return wrap(text, "- ", "  ");
}

/// Characters of a verdict that are shown.
constexpr std::size_t verdict_width = 4096;

/// As a block that can be copied; what each command should show is the shell's comment before it.
std::string do_next(const std::vector<NextStep>& steps) {
  if (steps.empty()) return "";
  std::string out = "**Do next** (from the directory of this report):\n\n```sh\n";
  for (const NextStep& step : steps) out += fmt::format("# {}\n{}\n", step.expect, step.command);
  return out + "```\n\n";
}

std::string first_screen(const JobReport& report, const Overview& overview) {
  const std::string title = report.title.empty() ? "Why is this job slow?" : markdown_text(report.title, 200);
  std::string out = "# " + title + "\n\n";
  out += wrap("**" + markdown_text(report.verdict.text, verdict_width) + "**", "", "") + '\n';
  if (!report.verdict.next.empty())
    out += wrap("**Next:** " + markdown_text(report.verdict.next, verdict_width), "", "") + '\n';
  out += do_next(next_steps(report, "."));
  if (const std::vector<std::string> answers = short_answers(report); !answers.empty())
    out += list_item(fmt::format("{}", fmt::join(answers, " ")));
  for (const std::string& sentence : explanation(report, overview)) out += list_item(sentence);
  std::string quality = "Data: " + input_quality(report, overview);
  if (report.ranks.size() != 1) quality += ' ' + matching_quality(report) + ' ' + clock_quality(report);
  out += list_item(quality);
  if (!report.left_out.empty()) out += list_item(report.left_out);
  if (!report.window.empty()) {
    out += list_item("Only a part of the run was analysed, the same for every section and rank: " +
                     markdown_code(report.window, 200) + '.');
  }
  return out;
}

using Section = std::string (*)(const JobReport&);

/// A table, and the findings that rest on it: by their ids, or the ends of these.
struct Evidence {
  Section section;
  std::vector<std::string_view> findings;
};

std::string late_section(const JobReport& report) {
  return stragglers_section(overview_of(report));
}

const std::vector<Evidence>& evidence() {
  static const std::vector<Evidence> all{
      {late_section, {"straggler", "slow-link", "rotating-delay"}},
      {waits_section, {"straggler", "slow-link", "rotating-delay", "long-waits", "late-without-cost"}},
      {budget_section, {"gpu-idle", "opaque-graphs", "exposed-copies", "pipeline-bubble", "longest-stage"}},
      {operations_section, {"slow-link", "exposed-communication", "connection-setup", "unbalanced-exchange"}},
      {slack_section, {"slow-link", "exposed-communication"}},
      {nvlink_section, {"slow-link", "nvlink-asymmetry", "nvlink-idle-artefact"}},
      {communicators_section,
       {"missing-ranks", "withheld-arrivals", "no-collectives", "no-nccl-payload", "infeasible-matches"}}};
  return all;
}

bool rests_on(const JobReport& report, const std::vector<std::string_view>& ids) {
  return std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& finding) {
    return finding.severity <= FindingSeverity::medium &&
           std::any_of(ids.begin(), ids.end(), [&](auto id) { return finding.id.ends_with(id); });
  });
}

/// The tables that findings rest on: those that tell them first, then by name.
std::vector<const ShownTable*> shown_evidence(const JobReport& report) {
  std::vector<const ShownTable*> chosen;
  for (const ShownTable& shown : report.shown)
    if (rests_on(report, shown.findings)) chosen.push_back(&shown);
  std::stable_partition(chosen.begin(), chosen.end(), [](const ShownTable* shown) { return !shown->view.empty(); });
  return chosen;
}

/// Clocks and matching matter where the matching lacks something, or other evidence was held against it.
bool is_matching_in_doubt(const JobReport& report) {
  const bool unrelated = std::any_of(report.clock.sessions.begin(), report.clock.sessions.end(),
                                     [](const SessionClock& session) { return !session.uncertainty_ns; });
  return unrelated ||
         report.clock.violations + report.unjudged + report.partial + report.unmatched_arrivals +
                 report.withheld_arrivals >
             0 ||
         !inspector_sentence(report.tables).empty();
}

std::string more_section(const JobReport& report) {
  const std::int32_t rank = report.stragglers.empty() ? 0 : report.stragglers.front().trace_rank;
  return heading(
             "More",
             "Everything else is in report.html: timeline, who waits when, kernels, network, clocks, hardware, and all tables. In a terminal, from the directory of this report:") +
         fmt::format(
             "```sh\n"
             "nsys-explain-mpi show .               # which tables there are\n"
             "nsys-explain-mpi show . ranks         # any of them\n"
             "nsys-explain-mpi show . rank {:<9}# all about a rank\n"
             "nsys-explain-mpi show . collectives   # the costliest first\n```\n",
             rank);
}

}  // namespace

std::string to_markdown(const JobReport& report) {
  const Overview overview = overview_of(report);
  std::string out = first_screen(report, overview);
  out += findings_section(report);
  out += step_budget_section(report);
  for (const Evidence& one : evidence())
    if (rests_on(report, one.findings)) out += one.section(report);
  for (const ShownTable* shown : shown_evidence(report)) out += shown_section(report, *shown);
  if (is_matching_in_doubt(report)) out += clock_and_matching_section(report);
  out += side_file_sections(report);
  out += host_processes_section(report);
  out += inputs_section(report);
  out += warnings_section(report);
  out += capture_section(report);
  return out + more_section(report);
}

}  // namespace nsys_explain::report
