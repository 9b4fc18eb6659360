#pragma once

#include <algorithm>

#include "analysis/verdict/kernel_speed.hpp"
#include "analysis/waits/levels.hpp"

/// Whether the stages of a pipeline have equal work. Peers cannot tell: those of a stage are its own members.
///
/// Uneven by design is what only one stage runs: the embedding of the first, the head and the loss of the last. More of
/// the kernels that the other stages run, too (of equal name, grid and block) is a matter of how layers were dealt out,
/// and it is a surplus as far as it makes the whole step of the stage longer: a stage that has a layer more in place of
/// a heavy head is balanced.
namespace nsys_explain::analysis {

/// A surplus below this share of a stage's kernel time is not worth a verdict.
inline constexpr double smallest_surplus = 0.02;

/// Of each trace rank's kernel time (by index) the share that lies in kernels which at least one other pipeline stage
/// runs. 1 where a rank has no kernels. `kernels_by_launch` is the joined table; `trace_ranks` are ascending.
std::vector<double> shared_kernel_shares(const Table& kernels_by_launch, std::span<const std::int32_t> trace_ranks,
                                         const Grouping& stages);

/// Kernel time of each trace rank in each bin of the run; ranks by index.
struct KernelTime {
  std::size_t bins = 0;
  std::vector<std::int64_t> kernel_ns;  ///< by rank, then bin; 0: not known
  std::vector<double> shared;           ///< shared_kernel_shares
};

/// One stage against the median of the others (of an even number the longer of the two in the middle); times are those
/// of its median member in its median bin, without what a slow GPU adds.
struct StageBalance {
  std::string stage;
  std::vector<std::size_t> ranks;
  Nanoseconds kernel_ns = 0, others_kernel_ns = 0;
  Nanoseconds shared_ns = 0, others_shared_ns = 0;  ///< of kernels that other stages run, too
  double surplus = 0;  ///< share of kernel_ns beyond the others', as far as shared kernels are the reason; not below 0
  double p_value = 1;  ///< bound on the probability of so much more if in every bin stages were dealt out at random

  bool overfull() const { return surplus >= smallest_surplus; }
};

/// By the name of the stage. Empty with fewer than two stages, or where no bin is known of all of them.
std::vector<StageBalance> compare_stages(const KernelTime& time, std::span<const GpuSpeed> speeds,
                                         const Grouping& stages);

/// Of a job of two trace ranks whose roles differ: each is a stage by itself, as far as balance goes. An exchange
/// between two looks the same in a pipeline and elsewhere, so their communicator does not tell.
Grouping lone_stages(std::span<const std::int32_t> trace_ranks);
std::string name_of_lone_stage(std::int32_t trace_rank);

/// Table `stage_balance`.
Table stage_balance_table(std::span<const StageBalance> stages);

// What every trace rank delayed, and took longer itself, over the run: the matter of all verdicts.

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
