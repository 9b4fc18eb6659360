#pragma once

#include <set>
#include <string>
#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/read/local_traces.hpp"

namespace nsys_explain::pipeline {

/// Which of the inputs and processes are analysed: the same on every tool rank.
struct JobChoice {
  std::vector<InputReport> left_out;   ///< copies, and exports of other jobs; sorted by path
  std::set<TraceRankKey> trace_ranks;  ///< of the job that is analysed
  std::vector<OtherJob> others;

  /// nullptr: the input is analysed.
  const InputReport* why_left_out(const std::string& path) const;
};

/// Collective: finds copies and jobs among all that was read, and chooses one of these: that of `wanted`
/// (ingest::job_of), or else the largest. What is not of it is taken out of the local traces, so that it decides
/// nothing of the job. Throws exchange::AgreedFailure where nothing is `wanted`.
JobChoice choose_job(const exchange::Communicator& communicator, std::vector<LocalTrace>& local_traces,
                     const UserOptions& options, const std::string& wanted);

/// Leaves in local traces what is of the job.
void keep_chosen(const JobChoice& choice, std::vector<LocalTrace>& local_traces);

/// Of the traces of all tool ranks, by path.
std::vector<TraceFacts> gather_facts(const exchange::Communicator& communicator,
                                     const std::vector<LocalTrace>& local_traces);

}  // namespace nsys_explain::pipeline
