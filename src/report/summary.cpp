#include <fmt/format.h>

#include "report/overview.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

/// Of a place the trace rank whose delays cost most.
std::string whereabouts(const JobReport& report, const Straggler& straggler) {
  const TraceRankIdentity* rank = find_identity(report, straggler.trace_rank);
  if (rank == nullptr) return {};
  const std::string who =
      straggler.level == Level::gpu ? "It" : fmt::format("The costliest of them, trace rank {},", straggler.trace_rank);
  return fmt::format("{} is GPU {} of process {} on {}.", who, rank->key.device_id, rank->process_id,
                     plain_text(rank->host, 60));
}

}  // namespace

std::string to_summary(const JobReport& report, std::string_view output_directory) {
  const Overview overview = overview_of(report);
  std::string out = verdict(report, overview) + '\n';
  // Who is named above, else the worst of them, or why nobody is, is enough here; the rest is in the report.
  const std::vector<std::string> sentences = explanation(report, overview);
  const std::size_t late = overview.stragglers.size();
  const std::size_t told = late > explained_stragglers ? 1 : late;
  for (std::size_t i = 0; i < told; ++i)
    out += wrap(sentences[i], "  ", "    ") + wrap(whereabouts(report, overview.stragglers[i]), "  ", "    ");
  if (told == 0 && !sentences.empty()) out += wrap(sentences.front(), "  ", "    ");
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
