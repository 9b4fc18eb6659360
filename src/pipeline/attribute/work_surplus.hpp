#pragma once

#include <span>
#include <vector>

#include "analysis/verdict/job_delays.hpp"
#include "analysis/verdict/kernel_speed.hpp"
#include "analysis/waits/levels.hpp"
#include "exchange/communicator.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/local_traces.hpp"

/// Work beyond what is usual that no comparison with peers shows, because there are none, or they share it: of slow
/// GPUs, of pipeline stages with too many layers, of hosts that are late. Left out one at a time, each costs culprits
/// that are named with it (tests/scans/stragglers.py): slow GPUs 2 of 6 jobs of kind stage, full stages 4 of 6 (seeds
/// 96000:6), late hosts 2 of 24 of kind pipeline (96100:24); nobody else is named for them.
namespace nsys_explain::pipeline {

/// The same on every tool rank.
struct WorkSurplus {
  std::vector<analysis::GpuSpeed> speed;  ///< by index of the trace rank; what was not compared is not slow
  // As in JobDelays.
  std::vector<analysis::SpeedWander> wander;
  std::vector<Nanoseconds> kernel_ns;
  std::vector<std::int64_t> kernels_ns, usual_kernels_ns;
  std::vector<double> slowness;
  std::vector<analysis::StageBalance> stages;  ///< where there are stages to balance, and the job has steps
};

/// Sums by trace rank and bin of steps, of whole steps, so that captures that began or ended within one count alike.
struct WorkSums {
  WorkSums(std::size_t trace_ranks, std::size_t job_steps);
  /// `r`: index of the trace rank, whose timeline has been measured and counts the steps of the job.
  void add(std::size_t r, const LocalRank& rank);

  std::size_t steps;
  std::vector<std::int64_t> kernel_ns, usual_kernel_ns, idle_ns;
};

/// Collective: finds it, and sets TimelineArrival::surplus_ns of the local ranks, of which `sums` are.
/// `rank_tables` are the joined ones on rank 0, empty elsewhere.
WorkSurplus find_surplus(const exchange::Communicator& communicator, const JobRanks& job,
                         const std::vector<Table>& rank_tables, std::span<const analysis::Grouping> groupings,
                         WorkSums sums, std::vector<LocalTrace>& local_traces);

}  // namespace nsys_explain::pipeline
