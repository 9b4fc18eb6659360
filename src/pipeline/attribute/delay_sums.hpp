#pragma once

#include <vector>

#include "analysis/verdict/job_delays.hpp"
#include "analysis/window/steps.hpp"
#include "exchange/communicator.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/attribute/step_rows.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/read/job_ranks.hpp"

/// What each trace rank took longer, and what others waited for it, over the run.
namespace nsys_explain::pipeline {

/// Collective: roles, caused waits, excess work and transfers, the same on every tool rank; nothing else. `sums` are
/// those of the local timelines; caused waits are added to them and to the timelines.
analysis::JobDelays sum_delays(const exchange::Communicator& communicator, const ClockReport& clock,
                               const JobRanks& job, const ReaderRanks& readers, const CrossRank& cross,
                               const analysis::Steps& steps, SumsOfSteps& sums);

}  // namespace nsys_explain::pipeline
