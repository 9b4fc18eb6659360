#pragma once

#include <vector>

#include "analysis/replay/job_graph.hpp"

namespace nsys_explain::analysis {

/// How much longer the transfer of an instance took, from its last enter to the first exit after that.
struct TransferExcess {
  Nanoseconds usual_ns = 0;  ///< than the median of its kind; may be negative
  Nanoseconds best_ns = 0;   ///< than the median of the communicator that is best at its kind; not below 0
};

struct TransferExcesses {
  std::vector<TransferExcess> of_instance;  ///< 0 where nothing is alike
  bool has_groups_alike = false;            ///< several communicators have transfers of one kind
};

TransferExcesses find_transfer_excess(const JobGraph& graph);

}  // namespace nsys_explain::analysis
