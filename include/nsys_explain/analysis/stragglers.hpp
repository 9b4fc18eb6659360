#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nsys_explain/analysis/job_delays.hpp"
#include "nsys_explain/analysis/levels.hpp"
#include "nsys_explain/analysis/totals.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

struct StragglerCriteria {
  double false_alarm_rate = 1e-3;      ///< of naming anybody in a job whose ranks are alike (Bonferroni, step-down)
  double smallest_cost_share = 0.002;  ///< delay cost as a share of all trace ranks' window time
  // Unproven: likely, and worth a longer capture.
  double unproven_rate = 0.05;  ///< of mentioning anybody in a job whose ranks are alike (Bonferroni)
  double unproven_cost_share = 0.01;
};

/// A trace rank or place whose delays cost much, but in too few steps to rule out chance.
struct UnprovenStraggler {
  Level level = Level::gpu;
  std::string place;
  std::vector<std::int32_t> trace_ranks;     ///< ascending
  double cost_share = 0;                     ///< as of Straggler
  double p_value = 1, verdict_p_value = 1;   ///< its own, and the largest that makes a verdict
  std::int64_t steps = 0, steps_needed = 0;  ///< looked at, and that would make one if all are like these
};

struct Named {
  std::vector<Straggler> stragglers;        ///< by delay cost
  std::vector<UnprovenStraggler> unproven;  ///< likewise; only where steps are known
};

/// Names the trace ranks, or places, that take longer themselves, and whose delays cost the others more, than chance
/// among their likes (ranks of one role, places of the same roles) allows, or whose GPUs are known to be slow by their
/// kernels, or that are a pipeline stage with more than its part of the layers, which need no likes; and enough to
/// matter; of places that share lateness the smallest that explains it (levels.hpp). One culprit is taken out before
/// the next is looked for, so the smaller of two stays visible. Those who are late by transfers through one slow trace
/// rank are named as that rank, with the cost of all their delays. A place two of whose culprits are late at other
/// times than each other is not taken for one. `ranks`, `totals` and `delays` are parallel. Patterns are left to
/// judge_pattern.
Named find_stragglers(std::span<const RankSummary> ranks, const Totals& totals, const JobDelays& delays,
                      std::span<const Grouping> groupings, const StragglerCriteria& criteria = {});

/// One finding each: what would prove it.
std::vector<Finding> unproven_findings(std::span<const UnprovenStraggler> unproven);

}  // namespace nsys_explain::analysis
