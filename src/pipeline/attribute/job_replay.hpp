#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/replay/replay.hpp"
#include "analysis/replay/saving.hpp"
#include "exchange/communicator.hpp"
#include "pipeline/attribute/gathered_job.hpp"
#include "pipeline/read/local_traces.hpp"
#include "pipeline/tool_rank/threads.hpp"

namespace nsys_explain::pipeline {

/// The job as it was, ready to be replayed on rank 0. What it is made of must outlive it.
class JobReplay {
 public:
  /// Collective. The timelines of the local ranks have been measured; their pieces are used up. Rank 0 replays, on
  /// these cores; `sparing`: one scenario after the other, for the least memory.
  JobReplay(const exchange::Communicator& communicator, const ReplaySetting& setting,
            std::vector<LocalTrace>& local_traces, const HostCores& cores, bool sparing);
  JobReplay(const JobReplay&) = delete;
  JobReplay& operator=(const JobReplay&) = delete;

  /// Collective: the share of the time of the steps that is saved if the work of these trace ranks (indices) were as is
  /// usual; 0 if a job without a fault may differ as much; empty where the job is not replayed. The same on every tool
  /// rank.
  std::optional<double> saved_share(std::span<const std::size_t> ranks) const;

  /// Arrivals, where they are too many for one tool rank; else 0. On every tool rank.
  std::int64_t too_many_arrivals() const { return too_many_arrivals_; }
  /// How many steps are replayed then, spread evenly; 0: none. On every tool rank.
  std::int64_t sampled_steps() const { return sampled_steps_; }
  /// On rank 0: GatheredJob::contradicted_waits.
  std::int64_t contradicted_waits() const { return gathered_.contradicted_waits(); }
  /// True on rank 0, where the job is replayed; the others hold only there.
  bool is_here() const { return replay_.has_value(); }
  /// The same, with all of its steps.
  bool is_whole() const { return is_here() && too_many_arrivals_ == 0; }
  const analysis::JobGraph& graph() const { return *graph_; }
  const analysis::Replay& replay() const { return *replay_; }
  const analysis::ReplayedTime& measured() const { return measured_; }
  const analysis::ReplayError& error() const { return error_; }
  analysis::StepLengths steps_of(const analysis::ReplayedTime& replayed) const;
  /// Of all steps but those apart.
  Nanoseconds elapsed_ns(const analysis::ReplayedTime& replayed) const;
  /// `unmended`: the job that the replay is compared with.
  analysis::Saving saving(const analysis::ReplayedTime& unmended, const analysis::ReplayedTime& replayed) const;
  /// Whether what is saved in the steps that are replayed holds for all: not what lies in few of a part, or may be
  /// chance.
  bool tells(const analysis::Saving& saving) const {
    return too_many_arrivals_ == 0 || (saving.pauses == 0 && saving.share >= saving.twin_differs);
  }
  /// Each scenario by itself.
  std::vector<analysis::ReplayedTime> run(std::span<const analysis::Scenario> scenarios) const {
    return replay_->run(scenarios, together_, run_all_);
  }

 private:
  const exchange::Communicator& communicator_;
  const std::size_t together_;
  const analysis::RunAll run_all_;
  std::int64_t too_many_arrivals_ = 0, sampled_steps_ = 0;
  GatheredJob gathered_;
  std::vector<std::int32_t> steps_apart_;  ///< ascending; those that are not replayed, too
  double premise_error_;                   ///< of measure_saving
  std::optional<analysis::JobGraph> graph_;
  std::optional<analysis::Replay> replay_;
  analysis::ReplayedTime measured_;
  analysis::ReplayError error_;
};

}  // namespace nsys_explain::pipeline
