#pragma once

#include <vector>

#include "job_ranks.hpp"
#include "nsys_explain/analysis/job_delays.hpp"
#include "nsys_explain/analysis/steps.hpp"
#include "nsys_explain/exchange/communicator.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "owned_rounds.hpp"
#include "path_homes.hpp"
#include "step_sums.hpp"
#include "wait_matrix.hpp"

/// Hands waits on to the delays that caused them (delay_costs.hpp), and adds up what each delay cost.
namespace nsys_explain::pipeline {

/// Sums over the run, by index of the trace rank.
struct RankDelays {
  Nanoseconds direct_ns = 0;      ///< cost of waits in instances in which the rank was last itself
  Nanoseconds propagated_ns = 0;  ///< cost that came to it through others
  Nanoseconds unattributed_ns = 0;
};

/// What the claims of a whole job come to.
struct SettledDelays {
  analysis::JobDelays delays;  ///< roles, costs, excess work and transfers; nothing else
  std::vector<RankDelays> ranks;
  std::vector<WaitCell> waits;  ///< on rank 0 only
};

/// Collective: `rounds` are those of plan_owned_rounds, `sums` those of the local paths; adds the costs to them. But
/// for `waits` the result is the same on every tool rank.
SettledDelays settle_delays(const exchange::Communicator& communicator, const ClockReport& clock, const JobRanks& job,
                            const Homes& homes, const CrossRank& cross, const OwnedRounds& rounds,
                            const analysis::Steps& steps, SumsOfSteps& sums);

}  // namespace nsys_explain::pipeline
