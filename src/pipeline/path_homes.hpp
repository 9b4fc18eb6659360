#pragma once

#include <vector>

#include "job_ranks.hpp"
#include "local_traces.hpp"
#include "nsys_explain/exchange/communicator.hpp"
#include "outgoing.hpp"

/// Where the path of each trace rank is, for what is sent to it.
namespace nsys_explain::pipeline {

/// Which tool rank holds the path of each trace rank, and where.
struct Homes {
  std::vector<int> tool_rank;        ///< by index of the trace rank; -1: nowhere
  std::vector<LocalRank*> of_index;  ///< by index of the trace rank; null: not here
  std::vector<LocalRank*> local;     ///< those that are here, ascending by trace rank
};

/// Collective.
Homes find_homes(const exchange::Communicator& communicator, const JobRanks& job,
                 std::vector<LocalTrace>& local_traces);

}  // namespace nsys_explain::pipeline
