#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "nsys_explain/model/names.hpp"
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

/// The finding that the verdict tells; the end where it tells none.
std::vector<Finding>::const_iterator told_finding(const JobReport& report) {
  return std::find_if(report.findings.begin(), report.findings.end(),
                      [&](const Finding& finding) { return finding.id == report.verdict.finding; });
}

/// What comes after the verdict: the findings that come next, with what to do about each.
std::string other_findings(const JobReport& report) {
  constexpr std::size_t most = 2;
  std::string text;
  std::size_t told = 0;
  const auto verdict = told_finding(report);
  for (auto one = report.findings.begin(); one != report.findings.end() && told < most; ++one) {
    const Finding& finding = *one;
    const bool is_about_missing = finding.id == "missing-ranks" || finding.id == "partial-report";
    if (one == verdict || is_about_missing || finding.severity > FindingSeverity::medium) continue;
    text += wrap(fmt::format("[{}] {}", severity_name(finding.severity), shortened(finding.title)), "  ", "    ",
                 line_width);
    text += wrap("Next: " + shortened(finding.recommendation), "    ", "    ", line_width);
    ++told;
  }
  return text.empty() ? "" : "Also:\n" + text;
}

}  // namespace

std::string to_summary(const JobReport& report, std::string_view output_directory) {
  const Overview overview = overview_of(report);
  // Whole, as in every report, however long the names of hosts are.
  std::string out = wrap(plain_text(report.verdict.text, longest_verdict), "", "  ", line_width);
  if (!report.verdict.next.empty())
    out += wrap("Next: " + plain_text(report.verdict.next, longest_verdict), "  ", "  ", line_width);
  out += other_findings(report);
  const std::string left_out = report.left_out.empty() ? "" : report.left_out + ' ';
  out += wrap(left_out + input_quality(report, overview) + ' ' + matching_quality(report) + ' ' + clock_quality(report),
              "", "  ", line_width);
  const auto& [info, data_loss, error] = overview.warnings;
  const auto& [high, medium, low, hint] = overview.findings;
  out += fmt::format("Findings: {} high, {} medium, {} low, {} info. Warnings: {} error, {} data loss, {} info.\n",
                     high, medium, low, hint, error, data_loss, info);
  const std::string_view others =
      has_html() ? "report.html, report.json, store.h5" : "report.json, store.h5; report.html needs npm at build time";
  return out + wrap(fmt::format("Reports: {}/report.md (also {})", plain_text(output_directory, 4096), others), "",
                    "  ", line_width);
}

}  // namespace nsys_explain::report
