#include "pipeline/attribute/job_replay.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "model/shared_gpus.hpp"
#include "pipeline/tool_rank/memory_budget.hpp"
#include "pipeline/tool_rank/threads.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Each replay holds some 60 bytes for each arrival: of a million, eight of them as much as the job itself.
constexpr int most_at_once = 8;

/// In one pass over the job: more save little (Replay::run).
constexpr int most_together = 4;

std::int64_t arrivals_of(const std::vector<LocalTrace>& local_traces) {
  std::int64_t arrivals = 0;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) arrivals += std::ssize(rank.timeline.arrivals);
  }
  return arrivals;
}

/// Between trace ranks whose clocks are not related nothing tells who waits.
bool have_one_clock(const GatheredJob& gathered, const ReplaySetting& setting) {
  constexpr double least_related = 0.95;
  std::map<std::int32_t, std::int64_t> arrivals;  // by component
  for (const GatheredRank& rank : gathered.ranks) {
    const std::size_t session = setting.job.session_of_rank[static_cast<std::size_t>(rank.rank)];
    arrivals[setting.clock.sessions[session].component] += rank.arrivals;
  }
  std::int64_t all = 0, most = 0;
  for (const auto& [component, count] : arrivals) {
    all += count;
    most = std::max(most, count);
  }
  return static_cast<double>(most) >= least_related * static_cast<double>(all);
}

}  // namespace

JobReplay::JobReplay(const exchange::Communicator& communicator, const ReplaySetting& setting,
                     std::vector<LocalTrace>& local_traces, const HostCores& cores, bool sparing)
    : communicator_(communicator),
      together_(sparing ? 1 : static_cast<std::size_t>(std::clamp(most_at_once / cores.threads(), 1, most_together))),
      run_all_([cores, threads = sparing ? 1 : cores.threads()](const std::vector<std::function<void()>>& tasks) {
        cores.run_in_parallel(tasks, std::min(threads, most_at_once));
      }),
      steps_apart_(setting.steps_apart.begin(), setting.steps_apart.end()),
      premise_error_(shared_gpus_of(setting.job.trace_ranks).empty() ? 0 : analysis::shared_gpu_error) {
  const std::int64_t arrivals = communicator.sum(arrivals_of(local_traces));
  std::vector<bool> steps;
  if (arrivals > most_replayed_arrivals) {
    too_many_arrivals_ = arrivals;
    steps = steps_to_replay(communicator, setting, local_traces);
    sampled_steps_ = std::count(steps.begin(), steps.end(), true);
    for (std::size_t step = 0; step < steps.size(); ++step)
      if (!steps[step]) steps_apart_.push_back(static_cast<std::int32_t>(step));
    std::sort(steps_apart_.begin(), steps_apart_.end());
  }
  if (too_many_arrivals_ == 0 || sampled_steps_ > 0) gathered_ = gather_job(communicator, setting, steps, local_traces);
  for (LocalTrace& trace : local_traces)
    for (LocalRank& rank : trace.ranks) rank.pieces.release();
  if (!communicator.is_root() || !gathered_.is_telling() || !have_one_clock(gathered_, setting)) return;
  graph_.emplace(gathered_.graph(setting.job.numbers.size()));
  replay_.emplace(*graph_, setting.steps.start_ns.size(), run_all_);
  const std::vector<analysis::Scenario> as_it_was = {{}, {.usual = analysis::Usual::next_step}};
  std::vector<analysis::ReplayedTime> replayed = replay_->run(as_it_was, cores.threads() > 1 ? 1 : together_, run_all_);
  measured_ = std::move(replayed[0]);
  error_ = analysis::measure_error(steps_of(measured_), steps_of(replayed[1]));
}

analysis::StepLengths JobReplay::steps_of(const analysis::ReplayedTime& replayed) const {
  return analysis::step_lengths(replayed, graph_->start_ns, steps_apart_);
}

Nanoseconds JobReplay::elapsed_ns(const analysis::ReplayedTime& replayed) const {
  return replayed.end_ns - graph_->start_ns - steps_of(replayed).apart_ns;
}

analysis::Saving JobReplay::saving(const analysis::ReplayedTime& unmended,
                                   const analysis::ReplayedTime& replayed) const {
  return analysis::measure_saving(steps_of(unmended).lengths_ns, steps_of(replayed).lengths_ns,
                                  elapsed_ns(unmended) - elapsed_ns(replayed), elapsed_ns(measured_),
                                  error_.steps > 0 ? std::optional(error_.median) : std::nullopt, premise_error_);
}

std::optional<double> JobReplay::saved_share(std::span<const std::size_t> ranks) const {
  constexpr std::int64_t not_told = std::numeric_limits<std::int64_t>::min();
  std::vector<std::int64_t> saved_ppb{not_told};
  if (is_here() && measured_.end_ns > graph_->start_ns) {
    analysis::Scenario scenario;
    scenario.ranks.assign(ranks.begin(), ranks.end());
    const analysis::Saving saved = saving(measured_, replay_->run(scenario));
    saved_ppb[0] = saved.share < saved.twin_differs ? 0 : static_cast<std::int64_t>(1e9 * saved.share);
  }
  saved_ppb = communicator_.broadcast(std::span<const std::int64_t>(saved_ppb));
  if (saved_ppb[0] == not_told) return std::nullopt;
  return static_cast<double>(saved_ppb[0]) * 1e-9;
}

}  // namespace nsys_explain::pipeline
