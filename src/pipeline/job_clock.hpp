#pragma once

#include <optional>

#include "cross_rank.hpp"
#include "job_ranks.hpp"
#include "nsys_explain/exchange/communicator.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::pipeline {

/// Collective: the clock of every session from what the files say and from the ends of matched collectives.
ClockReport estimate_clock(const exchange::Communicator& communicator, const JobRanks& job, const CrossRank& cross);

}  // namespace nsys_explain::pipeline
