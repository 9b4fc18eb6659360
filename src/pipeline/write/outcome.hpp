#pragma once

#include <iosfwd>

#include "nsys_explain/model/job_report.hpp"
#include "pipeline/run/job.hpp"

/// What a run tells whoever started it.
namespace nsys_explain::pipeline {

/// True where some input was read, be it without GPU work: what it holds is told all the same.
bool is_report_worth_writing(const JobReport& report);

int exit_code(const JobSpecification& job, const JobReport& report);

/// On the first tool rank, whatever became of the run: who watches it must see that it ended, when and how. Throws
/// where the file of --prometheus cannot be written.
void write_metrics(const JobSpecification& job, const JobReport& report, int code);

/// On the first tool rank: which inputs failed, and the summary that was asked for.
void print_outcome(const JobSpecification& job, const JobReport& report, int code, std::ostream& out,
                   std::ostream& problems);

}  // namespace nsys_explain::pipeline
