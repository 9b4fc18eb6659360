#pragma once

#include <vector>

#include "exchange/communicator.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/local_traces.hpp"
#include "pipeline/run/outgoing.hpp"

/// Where the path of each trace rank is, for what is sent to it.
namespace nsys_explain::pipeline {

/// Which tool rank holds the path of each trace rank, and where.
struct ReaderRanks {
  std::vector<int> tool_rank;        ///< by index of the trace rank; -1: nowhere
  std::vector<LocalRank*> of_index;  ///< by index of the trace rank; null: not here
  std::vector<LocalRank*> local;     ///< those that are here, ascending by trace rank
};

/// Collective.
ReaderRanks find_readers(const exchange::Communicator& communicator, const JobRanks& job,
                         std::vector<LocalTrace>& local_traces);

}  // namespace nsys_explain::pipeline
