#include <fmt/format.h>

#include "markdown_sections.hpp"
#include "nsys_explain/report/report.hpp"
#include "overview.hpp"
#include "text.hpp"

namespace nsys_explain::report {

namespace {

std::string list_item(std::string_view text) {
  return wrap(text, "- ", "  ");
}

std::string first_screen(const JobReport& report, const Overview& overview) {
  std::string out = "# Why is this job slow?\n\n";
  out += wrap("**" + verdict(report, overview) + "**", "", "") + '\n';
  for (const std::string& sentence : explanation(report, overview)) out += list_item(sentence);
  out += list_item("Data quality: " + input_quality(report, overview) + ' ' + matching_quality(report) + ' ' +
                   clock_quality(report));
  return out;
}

}  // namespace

std::string to_markdown(const JobReport& report) {
  const Overview overview = overview_of(report);
  std::string out = first_screen(report, overview);
  out += findings_section(report);
  out += stragglers_section(overview);
  out += budget_section(report);
  out += waits_section(report);
  out += operations_section(report);
  out += communicators_section(report);
  out += clock_section(report);
  out += nvlink_section(report);
  out += trace_ranks_section(report);
  out += inputs_section(report);
  out += warnings_section(report);
  out += capture_section(report);
  return out;
}

}  // namespace nsys_explain::report
