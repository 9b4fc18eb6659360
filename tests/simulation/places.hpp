#pragma once

#include <string>

#include "simulation/job_plan.hpp"
#include "simulation/simulated_job.hpp"

namespace nsys_explain::synth {

/// Fills job.places and job.sessions: who ran where, in which file, on which clock.
void make_places(const JobPlan& plan, SimulatedJob& job);

/// Host name of a node.
std::string node_name(std::int32_t node);

}  // namespace nsys_explain::synth
