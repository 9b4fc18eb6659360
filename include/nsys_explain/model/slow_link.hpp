#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/time.hpp"

namespace nsys_explain {

/// What the transfers that are slow have in common, and those that are not slow lack. `group`: the slow groups share
/// several trace ranks, and nothing tells which of them it is.
enum class LinkPlace : std::uint8_t { rank, rank_pair, node, node_pair, group };

/// Which transfers of the place are slow: all, those within a node (NVLink), or those between nodes (its NIC or cable).
enum class LinkScope : std::uint8_t { any, within_node, between_nodes };

/// A place in the network whose transfers are slower than those of equal groups elsewhere.
struct SlowLink {
  LinkPlace place = LinkPlace::group;
  LinkScope scope = LinkScope::any;
  std::vector<std::int32_t> trace_ranks;  ///< rank, rank_pair, group: these; node, node_pair: the ranks on them
  std::vector<std::string> hosts;         ///< that the place lies on
  std::int64_t slow_groups = 0;           ///< groups of trace ranks that are slow through it
  std::int64_t fast_groups = 0;           ///< groups that were compared and are not slow
  std::int64_t instances = 0;             ///< collectives of the slow groups
  double slowdown = 1;                    ///< their transfer time / that of their peers
  Nanoseconds lost_ns = 0;  ///< GPU time: transfer time beyond the peers', times members, summed over instances
  Operation operation = Operation::unknown;   ///< of the slow group that loses most
  std::int64_t bytes = 0;                     ///< of one of its collectives
  double measured_gbs = 0, expected_gbs = 0;  ///< its bus bandwidth, and that of equal groups elsewhere
  std::vector<std::string> evidence;
};

}  // namespace nsys_explain
