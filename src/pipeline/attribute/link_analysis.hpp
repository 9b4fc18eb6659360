#pragma once

#include <cstdint>
#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/model/report_parts.hpp"
#include "nsys_explain/model/table.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/read/job_ranks.hpp"

namespace nsys_explain::pipeline {

/// What transfers tell about the network.
struct LinkAnalysis {
  // The same on every tool rank:
  std::vector<std::vector<std::int32_t>> slow_groups;  ///< trace ranks, ascending, of each
  std::vector<std::vector<std::int32_t>>
      slow_places;  ///< trace ranks, or those of nodes, that are the place of a slow link by themselves
  // On rank 0, empty elsewhere:
  std::vector<SlowLink> slow_links;
  std::vector<Table> tables;  ///< bandwidth, slow_links
};

/// Collective: sums of the transfers of all tool ranks' blocks, whose waits were computed, meet on rank 0 and are
/// compared there. What travels is small: a histogram per group of trace ranks, operation and size.
LinkAnalysis analyse_links(const exchange::Communicator& communicator, const JobRanks& job, const CrossRank& cross);

}  // namespace nsys_explain::pipeline
