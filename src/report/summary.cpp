#include <fmt/format.h>

#include "nsys_explain/report/report.hpp"
#include "overview.hpp"
#include "text.hpp"

namespace nsys_explain::report {

std::string to_summary(const JobReport& report, std::string_view output_directory) {
  const Overview overview = overview_of(report);
  std::string out = verdict(report, overview) + '\n';
  // The worst straggler, or why there is none, is enough here; the rest is in the report.
  const std::vector<std::string> sentences = explanation(report, overview);
  if (!sentences.empty()) out += wrap(sentences.front(), "  ", "    ");
  if (const TraceRankIdentity* rank =
          overview.stragglers.empty() ? nullptr : find_identity(report, overview.stragglers.front().trace_rank)) {
    out += fmt::format("  It is GPU {} of process {} on {}.\n", rank->key.device_id, rank->process_id,
                       plain_text(rank->host, 60));
  }
  out += wrap(input_quality(report, overview) + ' ' + matching_quality(report), "  ", "    ");
  out += wrap(clock_quality(report), "  ", "    ");
  const auto& [info, data_loss, error] = overview.warnings;
  const auto& [high, medium, low, hint] = overview.findings;
  out += fmt::format("  Findings: {} high, {} medium, {} low, {} info. Warnings: {} error, {} data loss, {} info.\n",
                     high, medium, low, hint, error, data_loss, info);
  out += fmt::format(
      "Reports: {}/report.md (also {})\n", plain_text(output_directory, 4096),
      has_html() ? "report.html, report.json, store.h5" : "report.json, store.h5; report.html needs npm at build time");
  return out;
}

}  // namespace nsys_explain::report
