#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nsys_explain/analysis/levels.hpp"
#include "nsys_explain/analysis/stage_balance.hpp"
#include "nsys_explain/analysis/totals.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// The run is cut into at most this many bins, each a number of steps, so that what any rank holds stays small.
inline constexpr std::size_t most_bins = 512;

/// How many bins so many steps make, and which of them a step is in.
std::size_t bins_of_steps(std::size_t steps);
std::size_t bin_of_step(std::size_t step, std::size_t steps);

/// Bins of time where no steps are known.
inline constexpr std::size_t time_bins = 64;

/// A trace rank that is the place of a slow link by itself, and all with whom it exchanges slowly, itself among them:
/// every slow transfer of its makes them late, too. Indices, ascending.
struct SlowRank {
  std::size_t rank = 0;
  std::vector<std::size_t> partners;
};

/// Delays of all trace ranks, the same on every tool rank; ranks by index.
struct JobDelays {
  std::size_t bins = 0;
  bool by_step = false;               ///< bins are steps (or equally many in a row), else spans of time
  std::size_t steps = 0;              ///< in all bins; 0: spans of time
  std::vector<std::uint64_t> role;    ///< Path::role
  std::vector<std::int64_t> cost_ns;  ///< delay cost by rank, then bin
  std::vector<GpuSpeed> speed;        ///< against GPUs that run the same kernels
  std::vector<StageBalance> stages;   ///< of a pipeline; empty where there is none
  /// By rank, then bin: work beyond that of peers, and transfers over slow links; may be negative.
  std::vector<Nanoseconds> excess_work_ns;
  std::vector<Nanoseconds> slow_transfer_ns;  ///< by rank: the transfers in it
  std::vector<SlowRank> slow_ranks;

  /// Over the run.
  Nanoseconds excess_of(std::size_t rank) const;
};

/// The stage that consists of just these trace ranks (indices, ascending), if it has more than its part of the layers.
const StageBalance* find_overfull_stage(const JobDelays& delays, std::span<const std::size_t> ranks);

/// For each rank a bound on the probability that it causes as much waiting as it does if all ranks were alike, that is,
/// if in every bin the ranks' shares were dealt out at random. `caused[r * bins + b]` is what rank r caused in bin b.
///
/// Chernoff's bound for the sum T_r over independent bins: P(T >= T_r) <= min over L > 0 of
/// exp(-L T_r) * product over b of (mean over s of exp(L x_sb)), taken over a grid of L. Free of assumptions on the
/// distribution and good for groups of any size: a single long pause cannot be significant (1/ranks at best), a delay
/// that recurs can. A bound is never 0.
std::vector<double> caused_wait_p_values(std::span<const std::int64_t> caused, std::size_t ranks, std::size_t bins);

/// Adds up neighbouring bins until what happens in one says nothing about the next (mean lag-1 autocorrelation
/// about each rank's own mean below 0.1), but not below 16 bins. Returns the number of bins left.
std::size_t pool_bins(std::vector<std::int64_t>& caused, std::size_t ranks, std::size_t bins);

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
