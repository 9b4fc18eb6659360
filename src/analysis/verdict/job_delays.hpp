#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/verdict/gpu_speed.hpp"
#include "analysis/verdict/kernel_time_wander.hpp"
#include "analysis/verdict/stage_balance.hpp"
#include "nsys_explain/model/time.hpp"

/// What every trace rank delayed, and took longer itself, over the run: the matter of all verdicts.
namespace nsys_explain::analysis {

/// The run is cut into at most this many bins, each a number of steps, so that what any rank holds stays small.
inline constexpr std::size_t most_bins = 512;

/// How many bins so many steps make, and which of them a step is in.
std::size_t bins_of_steps(std::size_t steps);
std::size_t bin_of_step(std::size_t step, std::size_t steps);

/// Bins of time where no steps are known.
inline constexpr std::size_t time_bins = 64;

/// A trace rank, or all of a node, that is the place of a slow link by itself, and all with whom it exchanges slowly,
/// itself among them: every slow transfer of its makes them late, too. Indices, ascending.
struct SlowPlace {
  std::vector<std::size_t> ranks, partners;

  bool has(std::size_t rank) const { return std::binary_search(ranks.begin(), ranks.end(), rank); }
};

/// Delays of all trace ranks, the same on every tool rank; ranks by index.
struct JobDelays {
  std::size_t bins = 0;
  bool by_step = false;                        ///< bins are steps (or equally many in a row), else spans of time
  std::size_t steps = 0;                       ///< in all bins; 0: spans of time
  std::vector<std::uint64_t> role;             ///< RankTimeline::role
  std::vector<std::int64_t> caused_wait_ns;    ///< by rank, then bin
  std::vector<GpuSpeed> speed;                 ///< against GPUs that run the same kernels
  std::vector<StageBalance> stages;            ///< of a pipeline; empty where there is none
  std::vector<SpeedWander> wander;             ///< by rank; empty where no steps are known
  std::vector<Nanoseconds> kernel_ns;          ///< of a typical bin, by rank; likewise
  std::vector<std::int64_t> kernels_ns;        ///< kernel time, by rank, then bin; likewise
  std::vector<std::int64_t> usual_kernels_ns;  ///< of the same kernels, were each as long as is usual on its rank
  std::vector<double> slowness;                ///< kernel_slowness, by rank, then bin; likewise
  /// By rank, then bin: work beyond that of peers, and transfers over slow links; may be negative.
  std::vector<Nanoseconds> excess_work_ns;
  std::vector<Nanoseconds> slow_transfer_ns;  ///< likewise: the transfers in it; empty where there are none
  std::vector<SlowPlace> slow_places;
  std::vector<std::int32_t> clock_group;  ///< SessionClock::component, by rank: between two no wait is seen

  /// Over the run.
  Nanoseconds excess_of(std::size_t rank) const;
  Nanoseconds slow_transfers_of(std::size_t rank) const;
  /// What the latest of these ranks took longer than its peers, by bin; not below 0.
  std::vector<Nanoseconds> greatest_excess(std::span<const std::size_t> ranks) const;
};

/// The stage that consists of just these trace ranks (indices, ascending), if it has more than its part of the layers.
const StageBalance* find_overfull_stage(const JobDelays& delays, std::span<const std::size_t> ranks);

}  // namespace nsys_explain::analysis
