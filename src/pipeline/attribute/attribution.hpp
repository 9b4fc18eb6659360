#pragma once

#include <span>
#include <vector>

#include "analysis/verdict/stragglers.hpp"
#include "exchange/communicator.hpp"
#include "pipeline/attribute/job_replay.hpp"
#include "pipeline/attribute/link_analysis.hpp"
#include "pipeline/attribute/step_rows.hpp"
#include "pipeline/attribute/wait_matrix.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/local_traces.hpp"

/// Who made the job wait. The owner of an instance knows who waited for whom; the tool rank that read a trace knows how
/// that trace rank got there. Both exchange small records, a constant number for each arrival, and each keeps its own.
namespace nsys_explain::pipeline {

struct Attribution {
  analysis::JobDelays delays;
  analysis::Steps steps;                  ///< of the job; job time
  std::vector<std::int32_t> steps_apart;  ///< of these; they are no part of the mean step
  std::vector<StepRow> step_rows;         ///< of this tool rank's trace ranks, by (step, trace rank)
  std::vector<WaitCell> waits;            ///< who waited for whom; on rank 0 only
};

/// Collective: finds where the waits of all instances come from, and splits the lateness of every arrival of the owned
/// blocks. But for step_rows and waits the result is the same on every tool rank. `rank_tables` are the joined ones on
/// rank 0, empty elsewhere.
Attribution attribute_delays(const exchange::Communicator& communicator, const ClockReport& clock, const JobRanks& job,
                             CrossRank& cross, std::vector<LocalTrace>& local_traces,
                             const std::vector<Table>& rank_tables, std::span<const analysis::Grouping> groupings,
                             const LinkAnalysis& links);

/// What the delays come to.
struct Verdict {
  std::vector<RankSummary> ranks;
  std::vector<Straggler> stragglers;         ///< with patterns, without causes
  std::vector<SuspectedStraggler> suspects;  ///< likewise
  std::vector<LateWithoutCost> late_without_cost;
  DelaySummary delay;
};

/// Collective: completes the ranks' summaries and names who is late, on every tool rank.
Verdict reach_verdict(const exchange::Communicator& communicator, const JobRanks& job, std::vector<RankSummary> ranks,
                      const analysis::Totals& totals, const Attribution& attribution,
                      std::span<const analysis::Grouping> groupings, const JobReplay& replay);

}  // namespace nsys_explain::pipeline
