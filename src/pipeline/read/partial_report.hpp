#pragma once

#include "nsys_explain/model/job_report.hpp"
#include "pipeline/run/job.hpp"

/// The report on what had been read when a run was cut off.
namespace nsys_explain::pipeline {

/// The time that write_partial_report may take.
inline constexpr int partial_report_grace_s = 30;

/// Says on stderr where the shards lie and how to finish the run, and makes what report they allow, by a merge in a
/// process of its own: nothing of this one can be relied on any more. Older results stay. Returns the exit code of the
/// run.
int write_partial_report(const JobSpecification& job);

/// The finding with which such a report begins; nothing where no input is missing.
void add_partial_finding(JobReport& report);

}  // namespace nsys_explain::pipeline
