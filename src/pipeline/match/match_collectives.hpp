#pragma once

#include <vector>

#include "clock/fit.hpp"
#include "clock/level_zero.hpp"
#include "collectives/matching.hpp"
#include "collectives/mismatches.hpp"
#include "exchange/communicator.hpp"
#include "pipeline/match/unit_arrivals.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/local_traces.hpp"

namespace nsys_explain::pipeline {

/// What the cross-rank phase works on: the plan is the same on every tool rank, the blocks are those this rank owns.
struct CrossRank {
  std::vector<collectives::PlannedCommunicator> communicators;
  std::int64_t withheld_arrivals = 0;  ///< of all trace ranks: of which nothing tells the communicator
  std::vector<collectives::MatchUnit> units;
  std::vector<std::size_t> owned;                          ///< indices of this tool rank's units, ascending
  UnitArrivals arrivals;                                   ///< of those units, until the second pass
  clock::Observations observations;                        ///< of the first pass, until the clock has seen them
  std::vector<MatchedBlock> blocks;                        ///< parallel to owned, after the second pass
  std::vector<collectives::MemberComparison> comparisons;  ///< parallel to owned, after the second pass
};

/// Collective: infers communicators that no payload tells, agrees on all of them, brings every arrival to the owner of
/// its unit, and matches there what relates sessions. `clock_options`: whether host clocks may, too.
CrossRank match_collectives(const exchange::Communicator& communicator, const JobRanks& job,
                            const clock::ClockOptions& clock_options, std::vector<LocalTrace>& local_traces);

/// Makes timelines of the local arrivals, which are released: the blocks are made. Steps are in trace time still.
/// Timelines are larger than arrivals, so they come once the clock's observations are gone.
void make_timelines(const CrossRank& cross, std::vector<LocalTrace>& local_traces);

}  // namespace nsys_explain::pipeline
