#pragma once

#include <span>
#include <vector>

#include "analysis/replay/job_graph.hpp"
#include "analysis/waits/levels.hpp"
#include "analysis/window/steps.hpp"
#include "exchange/communicator.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/local_traces.hpp"

/// What waits for what in the whole job, on rank 0. That is some 160 bytes for each arrival: a job of 64 trace ranks
/// with 2,500 collectives each takes 25 MB there.
namespace nsys_explain::pipeline {

struct ReplaySetting {
  const ClockReport& clock;
  const JobRanks& job;
  const analysis::Steps& steps;               ///< of the job
  std::span<const std::int32_t> steps_apart;  ///< Attribution::steps_apart
  std::span<const analysis::Grouping> groupings;
};

/// Whose pieces and arrivals follow. Trivially copyable.
struct GatheredRank {
  std::int64_t rank = 0;  ///< index of the trace rank
  std::int64_t pieces = 0, arrivals = 0;
};

/// Of all trace ranks, in any order.
struct GatheredJob {
  std::vector<GatheredRank> ranks;
  std::vector<analysis::JobPiece> pieces;
  std::vector<analysis::ReplayArrival> arrivals;

  /// Whether enough was matched to tell what waits for what, and the hosts' calls can have been as they are recorded.
  bool is_telling() const { return is_matched() && contradicted_waits() == 0; }
  /// Calls in which a host waited for the GPU, and launched something; 0 where they are few.
  std::int64_t contradicted_waits() const;
  /// The job must outlive it.
  analysis::JobGraph graph(std::size_t trace_ranks) const;

 private:
  bool is_matched() const;
};

/// Collective: which steps of the job are replayed (analysis::sampled_steps), the same on every tool rank; all where it
/// has no more arrivals than are replayed.
std::vector<bool> steps_to_replay(const exchange::Communicator& communicator, const ReplaySetting& setting,
                                  const std::vector<LocalTrace>& local_traces);

/// Collective: on rank 0 all of these steps, elsewhere none; empty: the whole job. The timelines of the local ranks
/// have been measured.
GatheredJob gather_job(const exchange::Communicator& communicator, const ReplaySetting& setting,
                       const std::vector<bool>& steps, const std::vector<LocalTrace>& local_traces);

}  // namespace nsys_explain::pipeline
