#pragma once

#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/investigate/investigation.hpp"

namespace nsys_explain::pipeline {

/// Job time of the moment that the report is about first; 0 where there is none. `report` has its steps.
Nanoseconds first_moment_ns(const JobReport& report);

/// Collective: what a few trace ranks did around the moments that the findings are about, from traces that are read
/// again: the costliest late ones before a collective that tells most, the longest wait where nobody is late, and a
/// usual step. `report` has its detail on rank 0, and so has the result; elsewhere it is empty. Bounded in size.
std::vector<Moment> gather_moments(const exchange::Communicator& communicator, const Inquiry& inquiry,
                                   const JobReport& report);

}  // namespace nsys_explain::pipeline
