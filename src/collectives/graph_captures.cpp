#include "collectives/graph_captures.hpp"

#include <algorithm>

namespace nsys_explain::collectives {

const GraphNode* GraphCaptures::origin(std::uint64_t node_id) const {
  // Copies of copies exist (child graphs, clones that are instantiated); damaged rows could form a ring.
  constexpr int most_copies = 64;
  for (int copies = 0; copies < most_copies; ++copies) {
    const auto node = std::lower_bound(nodes_.begin(), nodes_.end(), node_id,
                                       [](const GraphNode& n, std::uint64_t id) { return n.node_id < id; });
    if (node == nodes_.end() || node->node_id != node_id) return nullptr;
    if (node->original_id == 0) return &*node;
    node_id = node->original_id;
  }
  return nullptr;
}

}  // namespace nsys_explain::collectives
