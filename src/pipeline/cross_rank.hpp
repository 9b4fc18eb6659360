#pragma once

#include <vector>

#include "job_ranks.hpp"
#include "local_traces.hpp"
#include "nsys_explain/analysis/totals.hpp"
#include "nsys_explain/clock/fit.hpp"
#include "nsys_explain/collectives/matching.hpp"
#include "nsys_explain/exchange/communicator.hpp"

namespace nsys_explain::pipeline {

/// What the cross-rank phase works on: the plan is the same on every tool rank, the blocks are those this rank owns.
struct CrossRank {
  std::vector<collectives::PlannedCommunicator> communicators;
  std::vector<collectives::MatchUnit> units;
  std::vector<std::size_t> owned;    ///< indices of this tool rank's units, ascending
  std::vector<MatchedBlock> blocks;  ///< parallel to owned
  std::vector<std::vector<Arrival>>
      uneven;  ///< parallel to owned: arrivals of units whose sequences differ, for the second pass
};

/// Collective: agrees on communicators, sends every arrival to the owner of its unit, and matches there.
CrossRank match_collectives(const exchange::Communicator& communicator, std::vector<LocalTrace>& local_traces);

/// Turns the times of all owned blocks, and the windows of the local ranks, from u into job time. Units whose sequences
/// differ are matched anew: on a common clock times tell which operations belong together.
void apply_clock(const clock::ClockFit& fit, const JobRanks& job, CrossRank& cross,
                 std::vector<LocalTrace>& local_traces);

/// Waits of every owned block.
void compute_waits(const clock::ClockFit& fit, const JobRanks& job, CrossRank& cross);

/// Collective: the sums over all blocks of the run, whose lateness is known, on every tool rank.
analysis::Totals sum_waits(const exchange::Communicator& communicator, const JobRanks& job, const CrossRank& cross);

/// Collective: one row per trace rank, on every tool rank, in the order of job.trace_ranks.
std::vector<RankSummary> summarise_ranks(const exchange::Communicator& communicator, const JobRanks& job,
                                         const std::vector<LocalTrace>& local_traces, const analysis::Totals& totals);

}  // namespace nsys_explain::pipeline
