#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/verdict/job_delays.hpp"
#include "analysis/waits/levels.hpp"
#include "analysis/waits/waits.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// The share of the elapsed time that is saved if the work of these trace ranks (indices, ascending) were as is usual;
/// empty where no replay tells.
using SavedShare = std::function<std::optional<double>(std::span<const std::size_t>)>;

struct StragglerCriteria {
  double false_alarm_rate = 1e-3;  ///< of naming anybody in a job whose ranks are alike (Bonferroni, step-down)
  /// Of the elapsed time, as far as what it takes longer is beyond chance. Recordings of one job without a fault, in
  /// one hour on one machine, differ by 1% in the length of their steps: less than that is nobody's fault.
  double smallest_cost_share = 0.01;
  // Suspects: worth a longer capture, or a second look once the stragglers are mended.
  double unproven_rate = 0.05;       ///< of suspecting anybody in a job whose ranks are alike (Bonferroni)
  double suspect_cost_share = 0.01;  ///< what it costs, or would cost
};

struct Named {
  std::vector<Straggler> stragglers;         ///< those that cost by themselves first, each by cost
  std::vector<SuspectedStraggler> suspects;  ///< as in JobReport; for too few steps only where steps are known
  std::vector<LateWithoutCost> late_without_cost;
};

/// Names the trace ranks, or places, that take longer themselves than chance among their likes (ranks of one role,
/// places of the same roles) allows, or whose GPUs are known to be slow by their kernels, or that are a pipeline stage
/// with more than its part of the layers, which need no likes; and without whose surplus the job would be done earlier,
/// by enough to matter, be it once the others are mended; of places that share lateness the smallest that explains it
/// (levels.hpp). One culprit is taken out before the next is looked for, so the smaller of two stays visible. Those who
/// are late by transfers through one slow trace rank are named as that rank. A place two of whose culprits are late at
/// other times than each other is not taken for one. `ranks`, `totals` and `delays` are parallel. Patterns and causes
/// are left to judge_pattern and decide_cause.
///
/// The rate of false alarms is shared by the classes of likes, and in each by its members, so that two nodes need no
/// more steps because each of them has many GPUs. `saved` is asked in the same order on every tool rank.
Named find_stragglers(std::span<const RankSummary> ranks, const Totals& totals, const JobDelays& delays,
                      std::span<const Grouping> groupings, const SavedShare& saved,
                      const StragglerCriteria& criteria = {});

}  // namespace nsys_explain::analysis
