#pragma once

#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/attribute/gathered_job.hpp"
#include "pipeline/read/local_traces.hpp"

namespace nsys_explain::pipeline {

/// Collective: what mending somebody would save, by replays of the job on rank 0, where it sets what_if, slowdown,
/// critical_path and step_time of the report, whose stragglers are known; says so where the job has too many arrivals
/// for that. The paths of the local ranks have been measured.
void replay_scenarios(const exchange::Communicator& communicator, const ReplaySetting& setting,
                      const std::vector<LocalTrace>& local_traces, JobReport& report);

}  // namespace nsys_explain::pipeline
