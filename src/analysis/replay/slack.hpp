#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/replay/job_graph.hpp"
#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/table.hpp"

/// How much longer collectives could have taken before any compute is known to begin later: the free float of network
/// planning (Kelley and Walker 1959), with compute in the place of the end of the project. A trace shows what waited,
/// and not what would have waited next, so this is an upper bound, and the bandwidth that it asks for a lower one.
///
///     rank 0   [reduce    ][adam]                      adam waits for the reduce
///     rank 1   [reduce    ]--- 30 ---[gather]-[adam]   gather follows it on its stream, and adam waits for gather
///
/// The reduce has no slack, for rank 0. Were rank 1 alone, it could be 30 later.
namespace nsys_explain::analysis {

/// What a complete collective moved. Trivially copyable.
struct CollectiveSize {
  std::int64_t instance = -1;       ///< ReplayArrival::instance
  std::int64_t message_bytes = -1;  ///< -1: not recorded
  Operation operation = Operation::unknown;
  std::array<std::uint8_t, 7> reserved = {};  ///< no padding bytes travel uninitialised
};

/// By instance of the graph, ns: how much later all members could have left. What nothing waited for has until compute
/// begins after the last collective of its step, or until the end of the run. O(n log n) in the pieces.
std::vector<Nanoseconds> slack_of_instances(const JobGraph& graph);

/// Table `slack`: a row per communicator, operation and power of two of the size. `sizes` ascend by instance; those of
/// the graph that are not among them do not count. `names` by communicator, the upper half of an instance.
Table slack_table(const JobGraph& graph, std::span<const CollectiveSize> sizes, std::span<const std::string> names);

}  // namespace nsys_explain::analysis
