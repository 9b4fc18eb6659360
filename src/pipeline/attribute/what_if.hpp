#pragma once

#include <vector>

#include "analysis/window/steps.hpp"
#include "exchange/communicator.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/local_traces.hpp"

/// What mending somebody would save: replays of the job on rank 0, to which every trace rank sends what waits for what.
/// That is some 160 bytes for each arrival: a job of 64 trace ranks with 2,500 collectives each takes 25 MB there.
namespace nsys_explain::pipeline {

struct ReplaySetting {
  const ClockReport& clock;
  const JobRanks& job;
  const analysis::Steps& steps;  ///< of the job
};

/// Collective: sets step_time and what_if of the report, whose stragglers are known, on every tool rank; says so where
/// the job has too many arrivals for that. The paths of
/// the local ranks have been measured.
void replay_scenarios(const exchange::Communicator& communicator, const ReplaySetting& setting,
                      const std::vector<LocalTrace>& local_traces, JobReport& report);

}  // namespace nsys_explain::pipeline
