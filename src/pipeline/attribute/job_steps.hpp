#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/window/steps.hpp"
#include "exchange/communicator.hpp"
#include "pipeline/attribute/step_rows.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/read/job_ranks.hpp"

/// Every trace has steps of its own; the job has those that all of them are counted by.
namespace nsys_explain::pipeline {

/// The steps of the job by number; the same on every tool rank.
struct JobSteps {
  analysis::StepSource source = analysis::StepSource::none;
  std::int32_t steps = 0;
  bool numbered = false;  ///< as in analysis::Steps
  std::int64_t first_number = 0;
  std::vector<std::int32_t> first;  ///< by index of the trace rank: the job's step that its own first one is

  bool are_known() const { return steps > 0; }
};

/// Collective: relates what the trace ranks count (analysis::relate_steps). Ranks whose steps the instances contradict
/// are counted by the others alone; where those are more than half of all, the job has no steps.
JobSteps count_steps(const exchange::Communicator& communicator, const JobRanks& job, const ReaderRanks& readers,
                     const CrossRank& cross);

/// The step of an instance, as most of its members count; -1: none tells. `scratch` is used again.
std::int32_t step_of_instance(const JobRanks& job, const JobSteps& steps, std::span<const InstanceArrival> members,
                              std::vector<std::int32_t>& scratch);

/// Collective, once the timelines count by the job: its steps in job time, each from when the first rank begins it.
analysis::Steps steps_in_time(const exchange::Communicator& communicator, const JobSteps& steps,
                              const ReaderRanks& readers);

/// Collective, likewise: the steps, ascending, in which all trace ranks that have them do more than a step
/// (analysis::steps_with_more).
std::vector<std::int32_t> steps_apart(const exchange::Communicator& communicator, const JobSteps& steps,
                                      const ReaderRanks& readers);

}  // namespace nsys_explain::pipeline
