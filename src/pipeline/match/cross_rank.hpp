#pragma once

#include <vector>

#include "analysis/waits/waits.hpp"
#include "clock/fit.hpp"
#include "exchange/communicator.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/match/match_collectives.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/local_traces.hpp"

namespace nsys_explain::pipeline {

/// Collective: gives the local ranks their clocks, makes their timelines, and matches anew in job time: on a common
/// clock times tell which operations belong together, and whether those brought together by order can. Then it tells
/// the waits in all owned blocks.
void apply_clock(const exchange::Communicator& communicator, const clock::ClockFit& fit, const JobRanks& job,
                 CrossRank& cross, std::vector<LocalTrace>& local_traces);

/// Collective: the instances of each communicator, by its number, on every tool rank.
std::vector<analysis::CommunicatorTotals> count_instances(const exchange::Communicator& communicator,
                                                          const CrossRank& cross);

/// Collective: the sums over all blocks of the run, whose lateness is known, on every tool rank; `communicators` are
/// those of count_instances.
analysis::Totals sum_waits(const exchange::Communicator& communicator, const JobRanks& job, const CrossRank& cross,
                           std::vector<analysis::CommunicatorTotals> communicators);

/// Collective: one row per trace rank, on every tool rank, in the order of job.trace_ranks.
std::vector<RankSummary> summarise_ranks(const exchange::Communicator& communicator, const JobRanks& job,
                                         const std::vector<LocalTrace>& local_traces, const analysis::Totals& totals);

/// Collective: the clock of every session from what the files say and from the ends of matched collectives: uses up
/// cross.observations.
clock::ClockFit estimate_clock(const exchange::Communicator& communicator, const JobRanks& job, CrossRank& cross,
                               const clock::ClockOptions& options);

}  // namespace nsys_explain::pipeline
