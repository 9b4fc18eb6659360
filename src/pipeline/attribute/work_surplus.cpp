#include "pipeline/attribute/work_surplus.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "analysis/trace/work_profile.hpp"
#include "analysis/verdict/job_delays.hpp"
#include "analysis/verdict/kernel_speed.hpp"
#include "model/schema/gpu.hpp"
#include "pipeline/tool_rank/pack.hpp"

namespace nsys_explain::pipeline {
namespace {

std::vector<analysis::GpuSpeed> share_speeds(const exchange::Communicator& communicator, const JobRanks& job,
                                             const std::vector<Table>& rank_tables) {
  std::vector<analysis::GpuSpeed> of_rank(job.numbers.size());
  for (const std::vector<analysis::GpuSpeed>& part : all_gather_packed(communicator, analysis::gpu_speeds(rank_tables)))
    for (const analysis::GpuSpeed& speed : part) of_rank[job.index_of(speed.trace_rank)] = speed;
  return of_rank;
}

Nanoseconds kernel_time(const WorkProfile& profile) {
  return profile.kernel_ns;
}

/// No more than the work itself: profiles of arrivals close to each other may hold the same time.
Nanoseconds host_idle(const analysis::TimelineArrival& arrival, const WorkProfile& profile) {
  return arrival.work_ns == no_time ? 0 : std::min(arrival.work_ns, analysis::host_idle_ns(profile));
}

/// Collective: shared_kernel_shares, on every tool rank.
std::vector<double> share_shared_kernels(const exchange::Communicator& communicator, const JobRanks& job,
                                         const std::vector<Table>& rank_tables, const analysis::Grouping& stages) {
  std::vector<double> shares;
  if (const Table* kernels = find_table(rank_tables, schema::kernels_by_launch))
    shares = analysis::shared_kernel_shares(*kernels, job.numbers, stages);
  return communicator.broadcast(std::span<const double>(shares));
}

/// Collective: the stages to balance. Where nothing tells of stages, two trace ranks whose roles differ.
std::optional<analysis::Grouping> stages_of(const exchange::Communicator& communicator, const JobRanks& job,
                                            std::span<const analysis::Grouping> groupings,
                                            const std::vector<LocalTrace>& local_traces) {
  if (const analysis::Grouping* stages = analysis::find_grouping(groupings, Level::pipeline_stage)) return *stages;
  if (job.numbers.size() != 2) return std::nullopt;
  std::vector<std::int64_t> roles(2, 0);
  for (const LocalTrace& trace : local_traces)
    for (const LocalRank& rank : trace.ranks)
      roles[job.index_of(rank.trace_rank)] = static_cast<std::int64_t>(rank.timeline.role);
  roles = communicator.sum(roles);
  if (roles[0] == roles[1]) return std::nullopt;
  return analysis::lone_stages(job.numbers);
}

/// Shares that are more than is usual, by index of the trace rank.
struct SurplusShares {
  std::size_t bins = 0;
  std::vector<double> kernels;  ///< of kernel time, by rank, then bin
  std::vector<double> outside;  ///< likewise, by rank, of arrivals outside of all steps
  std::vector<double> idle;     ///< of host_idle, by rank

  bool are_none(std::size_t r) const {
    const auto of_rank = std::span(kernels).subspan(r * bins, bins);
    return outside[r] == 0 && idle[r] == 0 &&
           std::all_of(of_rank.begin(), of_rank.end(), [](double share) { return share == 0; });
  }
};

/// Sets TimelineArrival::surplus_ns of the local ranks.
void set_surplus(const SurplusShares& shares, std::size_t steps, const JobRanks& job,
                 std::vector<LocalTrace>& local_traces) {
  for (LocalTrace& trace : local_traces) {
    for (LocalRank& rank : trace.ranks) {
      const std::size_t r = job.index_of(rank.trace_rank);
      if (shares.are_none(r)) continue;  // as of nearly all
      const std::vector<WorkProfile> profiles = rank.profiles.rows();
      for (std::size_t i = 0; i < rank.timeline.arrivals.size(); ++i) {
        analysis::TimelineArrival& arrival = rank.timeline.arrivals[i];
        const auto part = [](double share, Nanoseconds of_ns) {
          return static_cast<Nanoseconds>(share * static_cast<double>(of_ns));
        };
        const double kernels =
            arrival.step < 0
                ? shares.outside[r]
                : shares
                      .kernels[r * shares.bins + analysis::bin_of_step(static_cast<std::size_t>(arrival.step), steps)];
        const WorkProfile& profile = profiles[i];
        arrival.surplus_ns = part(kernels, kernel_time(profile)) + part(shares.idle[r], host_idle(arrival, profile));
      }
    }
  }
}

}  // namespace

WorkSums::WorkSums(std::size_t trace_ranks, std::size_t job_steps) : steps(job_steps) {
  const std::size_t entries = steps > 0 ? trace_ranks * analysis::bins_of_steps(steps) : 0;
  for (std::vector<std::int64_t>* sums : {&kernel_ns, &usual_kernel_ns, &idle_ns}) sums->assign(entries, 0);
}

void WorkSums::add(std::size_t r, const LocalRank& rank) {
  if (steps == 0) return;
  const std::size_t row = r * analysis::bins_of_steps(steps);
  const std::vector<WorkProfile> profiles = rank.profiles.rows();
  for (std::size_t i = 0; i < rank.timeline.arrivals.size(); ++i) {
    const analysis::TimelineArrival& arrival = rank.timeline.arrivals[i];
    if (!arrival.whole_step || arrival.step < 0) continue;
    const std::size_t entry = row + analysis::bin_of_step(static_cast<std::size_t>(arrival.step), steps);
    kernel_ns[entry] += kernel_time(profiles[i]);
    usual_kernel_ns[entry] += profiles[i].usual_kernel_ns;
    idle_ns[entry] += host_idle(arrival, profiles[i]);
  }
}

WorkSurplus find_surplus(const exchange::Communicator& communicator, const JobRanks& job,
                         const std::vector<Table>& rank_tables, std::span<const analysis::Grouping> groupings,
                         WorkSums sums, std::vector<LocalTrace>& local_traces) {
  const std::size_t steps = sums.steps;
  WorkSurplus surplus;
  surplus.speed = share_speeds(communicator, job, rank_tables);
  SurplusShares shares;
  shares.idle.assign(job.numbers.size(), 0);
  if (steps > 0) {
    const std::optional<analysis::Grouping> stages = stages_of(communicator, job, groupings, local_traces);
    analysis::KernelTime time;
    time.bins = shares.bins = analysis::bins_of_steps(steps);
    for (std::vector<std::int64_t>* of_job : {&sums.kernel_ns, &sums.usual_kernel_ns, &sums.idle_ns})
      *of_job = communicator.sum(*of_job);
    time.kernel_ns = std::move(sums.kernel_ns);
    surplus.wander = analysis::speed_wander(time.kernel_ns, sums.usual_kernel_ns, time.bins);
    surplus.kernel_ns = analysis::typical_kernel_times(time.kernel_ns, time.bins);
    surplus.slowness = analysis::kernel_slowness(time.kernel_ns, sums.usual_kernel_ns, surplus.speed, time.bins);
    analysis::doubt_wandering_speeds(analysis::typical_wander(surplus.wander), surplus.speed);
    shares.kernels = analysis::slow_gpu_surplus(time.kernel_ns, time.bins, surplus.speed);
    shares.idle = analysis::host_idle_surplus(sums.idle_ns, time.kernel_ns, time.bins);
    if (stages) {
      time.shared = share_shared_kernels(communicator, job, rank_tables, *stages);
      surplus.stages = analysis::compare_stages(time, surplus.speed, *stages);
    }
    surplus.kernels_ns = std::move(time.kernel_ns);
    surplus.usual_kernels_ns = std::move(sums.usual_kernel_ns);
  } else {
    const std::vector<analysis::SpeedWander> spread = analysis::spread_of_executions(surplus.speed);
    analysis::doubt_wandering_speeds(analysis::typical_wander(spread), surplus.speed);
  }
  for (const analysis::GpuSpeed& speed : surplus.speed) shares.outside.push_back(speed.slow ? 1 - 1 / speed.ratio : 0);
  for (const analysis::StageBalance& stage : surplus.stages) {
    if (!stage.overfull()) continue;
    for (const std::size_t r : stage.ranks)
      for (double& share : std::span(shares.kernels).subspan(r * shares.bins, shares.bins))
        share = 1 - (1 - stage.surplus) * (1 - share);
  }
  set_surplus(shares, steps, job, local_traces);
  return surplus;
}

}  // namespace nsys_explain::pipeline
