#pragma once

#include <atomic>
#include <chrono>

#include "nsys_explain/model/job_report.hpp"
#include "pipeline/tool_rank/job.hpp"

/// The report on what had been read when a run was cut off.
namespace nsys_explain::pipeline {

/// The time that write_partial_report may take, and what the next tool rank allows for it.
inline constexpr std::chrono::seconds partial_report_grace{30}, partial_report_turn{35};

/// Says on stderr where the shards lie and how to finish the run, and makes what report they allow, by a merge in a
/// process of its own: nothing of this one can be relied on any more. Older results stay. Returns the exit code of the
/// run.
int write_partial_report(const JobSpecification& job);

/// Says that a run was cut off after its report. Returns the exit code of the run.
int say_what_is_missing(const JobSpecification& job);

/// Whether there are results of a run; whose, is not asked.
bool has_report(const JobSpecification& job);

/// The tool ranks take turns: the first one writes the partial report, the second one where the first does not come to
/// it (it stands still), the rest look. In general the launcher ends them before. Nobody waits once there are results.
/// `had_report`: when the run began. `has_results`: this run has whole ones, and may come to them meanwhile. Returns
/// the exit code of the run.
int end_in_turn(const JobSpecification& job, int tool_rank, bool had_report, const std::atomic<bool>& has_results,
                std::chrono::seconds turn = partial_report_turn);

/// The finding with which such a report begins.
void add_partial_finding(JobReport& report);

}  // namespace nsys_explain::pipeline
