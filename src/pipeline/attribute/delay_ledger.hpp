#pragma once

#include <vector>

#include "analysis/verdict/job_delays.hpp"
#include "analysis/window/steps.hpp"
#include "exchange/communicator.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/attribute/path_homes.hpp"
#include "pipeline/attribute/step_sums.hpp"
#include "pipeline/attribute/wait_matrix.hpp"
#include "pipeline/match/owned_rounds.hpp"
#include "pipeline/read/job_ranks.hpp"

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
