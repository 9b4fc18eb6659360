#pragma once

#include "clock/fit.hpp"
#include "exchange/communicator.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/read/job_ranks.hpp"

namespace nsys_explain::pipeline {

/// Collective: the clock of every session from what the files say and from the ends of matched collectives: uses up
/// cross.observations.
clock::ClockFit estimate_clock(const exchange::Communicator& communicator, const JobRanks& job, CrossRank& cross,
                               const clock::ClockOptions& options);

}  // namespace nsys_explain::pipeline
