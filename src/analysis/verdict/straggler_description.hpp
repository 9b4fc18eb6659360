#pragma once

#include <span>

#include "analysis/verdict/job_delays.hpp"
#include "analysis/waits/levels.hpp"
#include "analysis/waits/waits.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// A cost as a share of all trace ranks' window time; 0 where they have none.
double share_of_windows(Nanoseconds cost, std::span<const RankSummary> ranks);

/// A place that is late: all but evidence of its being no chance, pattern and cause.
Straggler describe(const Place& place, double p_value, std::span<const RankSummary> ranks, const Totals& totals);

/// Adds what rules chance out.
void add_proof(const Place& place, const JobDelays& delays, Straggler& straggler);

}  // namespace nsys_explain::analysis
