#pragma once

#include <iosfwd>
#include <string>

#include "nsys_explain/model/job_report.hpp"
#include "pipeline/tool_rank/job.hpp"

/// What a run tells whoever started it.
namespace nsys_explain::pipeline {

/// True where some input was read, be it without GPU work: what it holds is told all the same.
bool is_report_worth_writing(const JobReport& report);

int exit_code(const JobSpecification& job, const JobReport& report);

/// "2026-07-01T12:00:00Z".
std::string now_utc();

/// On the first tool rank, whatever became of the run: who watches it must see that it ended, when and how. Throws
/// where the file of --prometheus cannot be written.
void write_metrics(const JobSpecification& job, const JobReport& report, int code);

/// On the first tool rank: which inputs failed, and the summary that was asked for.
void print_outcome(const JobSpecification& job, const JobReport& report, int code, std::ostream& out,
                   std::ostream& problems);

/// Of a run without a report, on one tool rank: metrics and the summary line, with the problem as its verdict. Throws
/// nothing; what cannot be written stays as it is, and the exit code tells.
void tell_failure(const JobSpecification& job, const std::string& problem, int code, std::ostream& out) noexcept;

/// Likewise of a run that is cut off and about to exit. Takes 5 s at most: a file system that hangs, which may be why
/// the run is cut off, must not hold up its end.
void tell_cut_off(const JobSpecification& job, int code, std::ostream& out);

}  // namespace nsys_explain::pipeline
