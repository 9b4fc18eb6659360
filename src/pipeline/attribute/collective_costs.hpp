#pragma once

#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/model/report_parts.hpp"
#include "nsys_explain/model/table.hpp"
#include "pipeline/attribute/job_replay.hpp"
#include "pipeline/match/match_collectives.hpp"
#include "pipeline/read/local_traces.hpp"

/// What collectives cost: by position in a step, against what they could cost, and how evenly members share them. Of
/// each the table on rank 0, an empty one elsewhere.
namespace nsys_explain::pipeline {

/// Collective: table `collectives_in_step`, once outcomes are taken.
Table collectives_in_step(const exchange::Communicator& communicator, const std::vector<LocalTrace>& local_traces);

/// Collective: table `slack`; empty where the job is not replayed.
Table collective_slack(const exchange::Communicator& communicator, const CrossRank& cross, const JobReplay& replay);

/// Collective: table `first_collectives`.
Table first_collectives(const exchange::Communicator& communicator, const CrossRank& cross);

/// Collective: table `exchange_balances`; `tables` are the joined ones on rank 0.
Table exchange_balances(const exchange::Communicator& communicator, const CrossRank& cross,
                        const std::vector<LocalTrace>& local_traces, const std::vector<Table>& tables);

/// Collective: what the exposed communication of all trace ranks was, by trace rank, then operation; on rank 0 only.
/// The timelines of the local ranks know their outcomes.
std::vector<ExposedTime> gather_exposed_time(const exchange::Communicator& communicator,
                                             std::vector<LocalTrace>& local_traces);

}  // namespace nsys_explain::pipeline
