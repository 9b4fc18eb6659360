#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "clock/job_clock.hpp"
#include "clock/level_zero.hpp"
#include "exchange/communicator.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/read/job_choice.hpp"
#include "pipeline/read/local_traces.hpp"

namespace nsys_explain::pipeline {

/// The profiled job as all inputs together tell it: the same on every tool rank.
struct JobRanks {
  Nanoseconds epoch_utc_ns = 0;
  std::vector<InputReport> inputs;             ///< sorted by path
  std::vector<Session> sessions;               ///< sorted by path; those analysed
  std::vector<TraceRankIdentity> trace_ranks;  ///< sorted by trace_rank
  std::vector<std::int32_t> numbers;           ///< trace_ranks[i].trace_rank
  std::vector<std::size_t> session_of_rank;    ///< parallel to trace_ranks
  std::vector<std::int32_t> ranks_of_session;  ///< how many trace ranks each session holds
  std::vector<HelperProcess> helpers;          ///< by key, in the exports of the job
  std::vector<OtherJob> other_jobs;            ///< of the inputs
  std::vector<TraceRankIdentity> hosts;        ///< processes without GPU work, sorted by number: no trace ranks
  std::vector<Warning> warnings;
  std::int32_t world_size = 0;           ///< ranks of the job as its traces tell; 0: not known
  std::int64_t untraced_processes = 0;   ///< with calls into NCCL, and without any work on a GPU
  std::set<std::string> without_ranges;  ///< paths of degraded inputs that hold no NVTX range, NCCL's neither

  /// False where ranks of the job are known to lack a trace.
  bool is_whole() const {
    const auto captured = static_cast<std::int32_t>(numbers.size());
    return untraced_processes == 0 && world_size <= captured && (numbers.empty() || numbers.back() < captured);
  }

  std::size_t index_of(std::int32_t trace_rank) const { return index_of_trace_rank(numbers, trace_rank); }
  std::size_t session_of(std::int32_t trace_rank) const { return session_of_rank[index_of(trace_rank)]; }

  clock::TraceClock trace_clock(std::size_t session, const clock::JobClock& clock) const {
    return clock::TraceClock(clock::session_start(sessions[session], epoch_utc_ns), clock);
  }
};

/// Collective: exchanges the facts of all inputs, resolves trace ranks and sessions of the job that was chosen. Gives
/// the local ranks their numbers, and the clock that their session recorded.
JobRanks resolve_job(const exchange::Communicator& communicator, std::vector<LocalTrace>& local_traces,
                     const std::vector<InputReport>& failed_discoveries, const ingest::RankOverrides& overrides,
                     const JobChoice& choice);

}  // namespace nsys_explain::pipeline
