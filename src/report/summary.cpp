#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "nsys_explain/model/names.hpp"
#include "nsys_explain/model/utf8.hpp"
#include "report/json_parts.hpp"
#include "report/overview.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

/// A terminal's line, and the characters of a sentence that take two of them.
constexpr std::size_t line_width = 110, two_lines = 210;
constexpr std::size_t longest_verdict = 4096;

/// What fits two lines, up to where a part of the sentence ends.
std::string shortened(std::string_view sentence) {
  std::string text = plain_text(sentence, 4096);
  if (text.size() <= two_lines) return text;
  for (const std::string_view mark : {"; ", ": ", ", "}) {
    const std::size_t at = text.rfind(mark, two_lines);
    if (at != std::string::npos && at >= two_lines / 2) return text.substr(0, at) + " ...";
  }
  return plain_text(text, two_lines);
}

/// What comes after the verdict: the findings that come next.
std::string other_findings(const JobReport& report) {
  constexpr std::size_t most = 1;
  std::string text;
  std::size_t shown = 0;
  const auto verdict = std::find_if(report.findings.begin(), report.findings.end(),
                                    [&](const Finding& finding) { return finding.id == report.verdict.finding; });
  for (auto one = report.findings.begin(); one != report.findings.end() && shown < most; ++one) {
    const bool is_about_missing = one->id == "missing-ranks" || one->id == "partial-report";
    if (one == verdict || is_about_missing || one->severity > FindingSeverity::medium) continue;
    text +=
        wrap(fmt::format("Also [{}]: {}", severity_name(one->severity), shortened(one->title)), "", "  ", line_width);
    ++shown;
  }
  return text;
}

/// Commands that can be copied, each with what it should show as the shell's comment.
std::string next_lines(const std::vector<NextStep>& steps) {
  std::string text = steps.empty() ? "" : "Do next:\n";
  for (const NextStep& step : steps) {
    const std::string command = "  " + plain_text(step.command, longest_verdict), comment = "  # " + step.expect;
    const bool fits = text_width(command) + text_width(comment) <= line_width;
    text += fmt::format("{}{}{}\n", command, fits ? "" : "\n    ", comment);
  }
  return text;
}

/// How good the data are. A job of one rank has neither collectives nor clocks to compare.
std::string quality(const JobReport& report, const Overview& overview) {
  std::string text = report.left_out.empty() ? "" : report.left_out + ' ';
  text += input_quality(report, overview);
  return report.ranks.size() < 2 ? text : text + ' ' + matching_quality(report) + ' ' + clock_quality(report);
}

/// "1 high, 2 low"; "none".
std::string counts_text(const std::array<std::int64_t, 4>& findings) {
  std::string text;
  for (std::size_t severity = 0; severity < findings.size(); ++severity)
    if (findings[severity] > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", findings[severity],
                          severity_name(static_cast<FindingSeverity>(severity)));
  return text.empty() ? "none" : text;
}

}  // namespace

std::string to_summary(const JobReport& report, std::string_view output_directory) {
  const Overview overview = overview_of(report);
  // Whole, as in every report, however long the names of hosts are.
  std::string out = wrap(plain_text(report.verdict.text, longest_verdict), "", "  ", line_width);
  if (!report.verdict.next.empty())
    out += wrap("Next: " + plain_text(report.verdict.next, longest_verdict), "", "  ", line_width);
  out += next_lines(next_steps(report, output_directory)) + other_findings(report);
  if (const std::vector<std::string> answers = short_answers(report); !answers.empty())
    out += wrap(fmt::format("{}", fmt::join(answers, " ")), "", "  ", line_width);
  out += wrap(quality(report, overview), "", "  ", line_width);
  const auto& [info, data_loss, error] = overview.warnings;
  const std::string warnings =
      error + data_loss == 0 ? "" : fmt::format(" Warnings: {} error, {} data loss.", error, data_loss);
  return out + wrap(fmt::format("Findings: {}.{} Reports: {}/{} (also {}report.json, store.h5)",
                                counts_text(overview.findings), warnings, plain_text(output_directory, 4096),
                                has_html() ? "report.html" : "report.md", has_html() ? "report.md, " : ""),
                    "", "  ", line_width);
}

std::string to_summary_line(const JobReport& report, std::string_view output_directory, int exit_code) {
  const Overview overview = overview_of(report);
  double seconds = 0;
  for (const RunFacts::Phase& phase : report.run.phases) seconds += phase.seconds;
  const auto to_object = [&](const Straggler& straggler) {
    const TraceRankIdentity* identity = find_identity(report, straggler.trace_rank);
    return Json{{"trace_rank", straggler.trace_rank},
                {"level", level_name(straggler.level)},
                {"host", identity == nullptr ? "" : valid_utf8(identity->host)},
                {"gpu", identity == nullptr ? -1 : identity->key.device_id},
                {"pattern", pattern_name(straggler.pattern)},
                {"cause", cause_name(straggler.cause)},
                {"cost_share", straggler.cost_share}};
  };
  const bool has_time = overview.window_ns > 0;
  const std::optional<WhatIf>& fixed = report.verdict.mended;
  const Json line{
      {"tool", "nsys-explain-mpi"},
      {"version", report.run.tool_version},
      {"exit_code", exit_code},
      {"date_utc", report.run.date_utc},
      {"verdict", valid_utf8(report.verdict.text)},
      {"finding", report.verdict.finding},
      {"severity", severity_name(report.verdict.severity)},
      {"judged_share", nullable(report.verdict.judged_share)},
      {"saved_share", fixed ? Json(fixed->saved_share) : Json(nullptr)},
      {"low_share", fixed ? nullable(fixed->low_share) : Json(nullptr)},
      {"high_share", fixed ? nullable(fixed->high_share) : Json(nullptr)},
      {"results", valid_utf8(output_directory)},
      {"inputs",
       {{"ok", overview.inputs_ok}, {"degraded", overview.inputs_degraded}, {"failed", overview.inputs_failed}}},
      {"trace_ranks", report.trace_ranks.size()},
      {"collectives", report.instances},
      {"wait_share", has_time ? Json(static_cast<double>(overview.wait_ns) / static_cast<double>(overview.window_ns))
                              : Json(nullptr)},
      {"stragglers", array_of(overview.stragglers, to_object)},
      {"clock_residual_p90_ns", nullable(report.clock.residual.held_out_p90_ns)},
      {"findings_high", overview.findings[static_cast<std::size_t>(FindingSeverity::high)]},
      {"tool_ranks", report.run.tool_ranks},
      {"seconds", seconds}};
  return line.dump(-1, ' ', true);  // in ASCII: it is printed
}

std::string to_phase_table(const RunFacts& run) {
  std::string out = fmt::format("{:<24} {:>9} {:>15} {:>10} {:>12}\n", "phase", "seconds", "rows", "bytes", "memory");
  const auto count_or_dash = [](std::int64_t count) { return count == 0 ? std::string("-") : format_count(count); };
  const auto bytes_or_dash = [](std::int64_t bytes) { return bytes == 0 ? std::string("-") : format_bytes(bytes); };
  double seconds = 0;
  std::int64_t memory_bytes = 0;
  for (const RunFacts::Phase& phase : run.phases) {
    out += fmt::format("{:<24} {:>9.3f} {:>15} {:>10} {:>12}\n", phase.name, phase.seconds, count_or_dash(phase.rows),
                       bytes_or_dash(phase.bytes), bytes_or_dash(phase.peak_memory_bytes));
    seconds += phase.seconds;
    memory_bytes = std::max(memory_bytes, phase.peak_memory_bytes);
  }
  out += fmt::format("{:<24} {:>9.3f} {:>15} {:>10} {:>12}\n", "all", seconds, "", "", bytes_or_dash(memory_bytes));
  out += fmt::format("{}, {} each; memory: the most that one of them held in the phase\n",
                     counted(run.tool_ranks, "tool rank"), counted(run.threads, "thread"));
  if (!run.memory) return out;
  out += fmt::format("memory limit {} for each tool rank: ", format_bytes(run.memory->limit_bytes));
  if (run.memory->traces_in_files == 0) return out + "all events were held in memory\n";
  out += fmt::format(
      "{} read with events in temporary files, up to {} for a tool rank; their pages count as memory above, but the system takes them back where it is short\n",
      counted(run.memory->traces_in_files, "trace"), format_bytes(run.memory->file_bytes));
  return out;
}

}  // namespace nsys_explain::report
