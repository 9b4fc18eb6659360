#include <fmt/format.h>

#include "nsys_explain/model/names.hpp"
#include "report/overview.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

/// A terminal's line, and the characters of a sentence that take two of them.
constexpr std::size_t line_width = 110, two_lines = 210;

/// What comes after the verdict: the next most severe findings, with what to do about each.
std::string other_findings(const JobReport& report) {
  constexpr std::size_t most = 2;
  std::string text;
  std::size_t told = 0;
  bool is_verdict = !report.verdict.finding.empty();  // the first of that id is what the verdict tells
  for (const Finding& finding : report.findings) {
    if (is_verdict && finding.id == report.verdict.finding) {
      is_verdict = false;
      continue;
    }
    if (told == most || finding.severity > FindingSeverity::medium) break;
    text += wrap(fmt::format("[{}] {}", severity_name(finding.severity), plain_text(finding.title, two_lines)), "  ",
                 "    ", line_width);
    text += wrap("Next: " + plain_text(finding.recommendation, two_lines), "    ", "    ", line_width);
    ++told;
  }
  return text.empty() ? "" : "Also:\n" + text;
}

}  // namespace

std::string to_summary(const JobReport& report, std::string_view output_directory) {
  const Overview overview = overview_of(report);
  std::string out = wrap(plain_text(report.verdict.text, 4 * line_width), "", "  ", line_width);
  if (!report.verdict.next.empty())
    out += wrap("Next: " + plain_text(report.verdict.next, 4 * line_width), "  ", "  ", line_width);
  out += other_findings(report);
  out += wrap(input_quality(report, overview) + ' ' + matching_quality(report) + ' ' + clock_quality(report), "", "  ",
              line_width);
  const auto& [info, data_loss, error] = overview.warnings;
  const auto& [high, medium, low, hint] = overview.findings;
  out += fmt::format("Findings: {} high, {} medium, {} low, {} info. Warnings: {} error, {} data loss, {} info.\n",
                     high, medium, low, hint, error, data_loss, info);
  out += fmt::format(
      "Reports: {}/report.md (also {})\n", plain_text(output_directory, 4096),
      has_html() ? "report.html, report.json, store.h5" : "report.json, store.h5; report.html needs npm at build time");
  return out;
}

}  // namespace nsys_explain::report
