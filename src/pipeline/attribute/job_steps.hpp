#pragma once

#include "analysis/window/steps.hpp"
#include "exchange/communicator.hpp"
#include "pipeline/attribute/path_homes.hpp"
#include "pipeline/read/job_ranks.hpp"

/// Every trace has steps of its own; the job has those that all of them are counted by.
namespace nsys_explain::pipeline {

/// Collective: the steps of the trace rank that has most stand for the job's.
analysis::Steps agree_on_steps(const exchange::Communicator& communicator, const JobRanks& job, const Homes& homes);

/// Numbers the steps of the rank's path by those of the job.
void count_steps_by(const analysis::Steps& job_steps, LocalRank& rank);

}  // namespace nsys_explain::pipeline
