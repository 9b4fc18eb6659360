#include <fmt/format.h>

#include "report/absent_sections.hpp"
#include "report/activity_sections.hpp"
#include "report/critical_path_section.hpp"
#include "report/markdown_sections.hpp"
#include "report/overview.hpp"
#include "report/phase_summary.hpp"
#include "report/report.hpp"
#include "report/run_facts.hpp"
#include "report/side_files.hpp"
#include "report/step_sections.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

std::string list_item(std::string_view text) {
  return wrap(text, "- ", "  ");
}

/// Characters of a verdict that are shown.
constexpr std::size_t verdict_width = 4096;

std::string first_screen(const JobReport& report, const Overview& overview) {
  std::string out = "# Why is this job slow?\n\n";
  out += wrap("**" + markdown_text(report.verdict.text, verdict_width) + "**", "", "") + '\n';
  if (!report.verdict.next.empty())
    out += wrap("**Next:** " + markdown_text(report.verdict.next, verdict_width), "", "") + '\n';
  for (const std::string& sentence : explanation(report, overview)) out += list_item(sentence);
  out += list_item("Data quality: " + input_quality(report, overview) + ' ' + matching_quality(report));
  out += list_item(clock_quality(report));
  if (!report.left_out.empty()) out += list_item(report.left_out);
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
  out += step_budget_section(report);
  out += critical_path_section(report);
  out += phases_section(report);
  out += waits_section(report);
  out += operations_section(report);
  out += slack_section(report);
  out += communicators_section(report);
  out += activity_sections(report);
  out += clock_and_matching_section(report);
  out += nvlink_section(report);
  out += network_section(report);
  out += side_file_sections(report);
  out += trace_ranks_section(report);
  out += host_processes_section(report);
  out += run_facts_section(report);
  out += inputs_section(report);
  out += warnings_section(report);
  out += absent_sections(report, out);
  out += capture_section(report);
  return out;
}

}  // namespace nsys_explain::report
