#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/waits/levels.hpp"

/// How a job is cut up among its ranks, as its communicators show: pipeline stages, expert, tensor and data indices.
namespace nsys_explain::analysis {

/// A communicator of which every member was captured.
struct LayoutCommunicator {
  std::vector<std::size_t> ranks;       ///< indices of trace ranks, ascending
  std::vector<std::int32_t> numbers;    ///< NCCL's rank number of each, or empty: not known, ascending stands for it
  std::int64_t instances = 0;           ///< matched operations
  std::int64_t pair_exchanges = 0;      ///< of these: sends and receives between two members
  std::int64_t blocking_instances = 0;  ///< of these: compute waited for them
  std::int64_t all_to_alls = 0;         ///< of these: among more than two members, each with all
};

/// Groupings of up to four levels, each only where communicators show it beyond doubt: communicators of one shape
/// (equal distances between their ranks) that divide all trace ranks into equal groups are one family of groups, and
/// two families belong to one layout where their groups meet in one rank at most.
/// - pipeline_stage: groups that only exchange between two members, chained where each pair has a communicator of its
///   own; of several the one whose members are farthest apart. None that hold two ranks of the busiest groups for which
///   compute waits. The stage is the place in the group. Where a single communicator of all ranks (three or more)
///   mostly exchanges, its ranks are the stages.
/// - expert_index: of the groups that mostly do all-to-alls, without those that hold all trace ranks, the busiest. It
/// is
///   no tensor or data group, whatever else it does.
/// - tensor_index and data_index: of the groups with collectives, without those that hold all trace ranks, the busiest
///   is tensor parallel if compute waits for most of its operations and they are no fewer than those of the pipeline;
///   the busiest that remains is data parallel. The index is the rank number in the communicator.
std::vector<Grouping> layout_groupings(std::size_t ranks, std::span<const LayoutCommunicator> communicators);

}  // namespace nsys_explain::analysis
