#pragma once

#include "job_ranks.hpp"
#include "nsys_explain/analysis/steps.hpp"
#include "nsys_explain/exchange/communicator.hpp"
#include "path_homes.hpp"

/// Every trace has steps of its own; the job has those that all of them are counted by.
namespace nsys_explain::pipeline {

/// Collective: the steps of the trace rank that has most stand for the job's.
analysis::Steps agree_on_steps(const exchange::Communicator& communicator, const JobRanks& job, const Homes& homes);

/// Numbers the steps of the rank's path by those of the job.
void count_steps_by(const analysis::Steps& job_steps, LocalRank& rank);

}  // namespace nsys_explain::pipeline
