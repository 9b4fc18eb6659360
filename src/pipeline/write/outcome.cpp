#include "pipeline/write/outcome.hpp"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "report/report.hpp"

namespace nsys_explain::pipeline {

int exit_code(const JobSpecification& job, const JobReport& report) {
  const auto failed = std::count_if(report.inputs.begin(), report.inputs.end(),
                                    [](const InputReport& input) { return input.status == InputStatus::failed; });
  if (static_cast<std::size_t>(failed) == report.inputs.size()) return nothing_analysed;
  const bool ranks_missing =
      job.require_ranks && static_cast<std::int32_t>(report.trace_ranks.size()) < *job.require_ranks;
  return failed > 0 || ranks_missing ? some_inputs_failed : all_analysed;
}

void print_outcome(const JobSpecification& job, const JobReport& report, int code, std::ostream& out,
                   std::ostream& problems) {
  for (const InputReport& input : report.inputs) {
    if (input.status == InputStatus::failed) problems << fmt::format("{}: {}\n", input.path, input.message);
  }
  if (code == nothing_analysed) problems << "nsys-explain-mpi: no input could be analysed, so there is no report\n";
  if (job.summary_line) {
    out << report::to_summary_line(report, job.output_directory, code) << '\n';
  } else if (!job.quiet && code != nothing_analysed) {
    out << report::to_summary(report, job.output_directory);
    if (job.show_timing) out << '\n' << report::to_phase_table(report.run);
  }
}

}  // namespace nsys_explain::pipeline
