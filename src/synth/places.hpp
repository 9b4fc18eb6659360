#pragma once

#include "nsys_explain/synth/job_plan.hpp"
#include "nsys_explain/synth/simulated_job.hpp"

namespace nsys_explain::synth {

/// Fills job.places and job.sessions: who ran where, in which file, on which clock.
void make_places(const JobPlan& plan, SimulatedJob& job);

}  // namespace nsys_explain::synth
