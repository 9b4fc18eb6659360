#pragma once

#include <cstdint>
#include <span>

#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::collectives {

/// Where the work that CUDA graphs replay was captured. NCCL's calls are made, and their ranges recorded, once, at that
/// time; what they say holds for every replay. A kernel names the node of the instantiated graph, which is a copy of
/// the captured one.
class GraphCaptures {
 public:
  /// `nodes`: sorted as ProcessTrace::graph_nodes; must outlive the object.
  explicit GraphCaptures(std::span<const GraphNode> nodes) : nodes_(nodes) {}

  /// The captured node that this one is, or is a copy of; nullptr where its capture was not recorded.
  const GraphNode* origin(std::uint64_t node_id) const;

 private:
  std::span<const GraphNode> nodes_;
};

}  // namespace nsys_explain::collectives
