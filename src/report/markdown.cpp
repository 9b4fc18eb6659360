#include <fmt/format.h>

#include <algorithm>

#include "report/absent_sections.hpp"
#include "report/activity_sections.hpp"
#include "report/critical_path_section.hpp"
#include "report/markdown_sections.hpp"
#include "report/overview.hpp"
#include "report/phase_summary.hpp"
#include "report/report.hpp"
#include "report/run_facts.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

std::string list_item(std::string_view text) {
  return wrap(text, "- ", "  ");
}

std::string whereabouts(const JobReport& report, const Overview& overview) {
  std::string text = "Where:";
  for (std::size_t i = 0; i < std::min(overview.stragglers.size(), explained_stragglers); ++i) {
    const TraceRankIdentity* rank = find_identity(report, overview.stragglers[i].trace_rank);
    if (rank == nullptr) continue;
    text += fmt::format("{}{} trace rank {} is GPU {} of process {} on {} ({})", i > 0 ? "," : "",
                        overview.stragglers[i].level == Level::gpu ? "" : " the costliest of them,", rank->trace_rank,
                        rank->key.device_id, rank->process_id, markdown_code(rank->host, 40),
                        markdown_path(rank->key.path, 60));
  }
  return text + '.';
}

/// Characters of a verdict that are shown.
constexpr std::size_t verdict_width = 600;

std::string first_screen(const JobReport& report, const Overview& overview) {
  std::string out = "# Why is this job slow?\n\n";
  out += wrap("**" + markdown_text(report.verdict.text, verdict_width) + "**", "", "") + '\n';
  for (const std::string& sentence : explanation(report, overview)) out += list_item(sentence);
  if (!overview.stragglers.empty()) out += list_item(whereabouts(report, overview));
  out += list_item("Data quality: " + input_quality(report, overview) + ' ' + matching_quality(report));
  out += list_item(clock_quality(report));
  if (!report.window.empty()) {
    out += list_item("Only a part of the run was analysed, the same for every section and trace rank: " +
                     markdown_code(report.window, 200) + '.');
  }
  return out;
}

}  // namespace

std::string to_markdown(const JobReport& report) {
  const Overview overview = overview_of(report);
  std::string out = first_screen(report, overview);
  out += findings_section(report);
  out += stragglers_section(overview);
  out += budget_section(report);
  out += critical_path_section(report);
  out += phases_section(report);
  out += waits_section(report);
  out += operations_section(report);
  out += communicators_section(report);
  out += activity_sections(report);
  out += clock_and_matching_section(report);
  out += nvlink_section(report);
  out += network_section(report);
  out += trace_ranks_section(report);
  out += run_facts_section(report);
  out += inputs_section(report);
  out += warnings_section(report);
  out += absent_sections(report, out);
  out += capture_section(report);
  return out;
}

}  // namespace nsys_explain::report
