#include <fmt/format.h>

#include "nsys_explain/report/report.hpp"
#include "overview.hpp"
#include "text.hpp"

namespace nsys_explain::report {

std::string to_summary(const JobReport& report, std::string_view output_directory) {
  const Overview overview = overview_of(report);
  std::string out = verdict(report, overview) + '\n';
  // The worst straggler and the total are enough here; the others are in the report.
  const std::vector<std::string> sentences = explanation(report, overview);
  if (!sentences.empty()) out += wrap(sentences.front(), "  ", "    ");
  if (sentences.size() > 1) out += wrap(sentences.back(), "  ", "    ");
  out += wrap(input_quality(report, overview) + ' ' + matching_quality(report), "  ", "    ");
  out += wrap(clock_quality(report), "  ", "    ");
  const auto& [info, data_loss, error] = overview.warnings;
  const auto& [high, medium, low, hint] = overview.findings;
  out += fmt::format("  Findings: {} high, {} medium, {} low, {} info. Warnings: {} error, {} data loss, {} info.\n",
                     high, medium, low, hint, error, data_loss, info);
  out += fmt::format("Reports: {}/report.md (also report.html, report.json, store.h5)\n",
                     plain_text(output_directory, 4096));
  return out;
}

}  // namespace nsys_explain::report
