#pragma once

#include "nsys_explain/model/collective.hpp"

namespace nsys_explain {

/// One collective, send or receive of one process as NCCL Inspector logged it. NCCL counts the collectives of each kind
/// in each communicator, equally on all members: communicator, operation and sequence name the collective exactly.
/// Sends and receives (Operation::send_recv) are counted together, on each member by itself.
struct InspectorRecord {
  std::uint64_t communicator = 0;   ///< NCCL's hash
  std::int64_t sequence = -1;       ///< NCCL's count of this operation in the communicator
  std::int64_t bytes = -1;          ///< NCCL's per-call size
  Nanoseconds duration_ns = 0;      ///< in the kernel by the GPU's clock, cut to microseconds
  Nanoseconds end_ns = no_time;     ///< when the host saw the kernel end; no_time: not logged (not verbose)
  Nanoseconds dumped_ns = no_time;  ///< when it was written: some time after the end
  std::int32_t rank = -1;           ///< of the process in the communicator
  std::int32_t rank_count = -1;
  std::int32_t peer = -1;  ///< of a send or receive: rank in the communicator
  Operation operation = Operation::unknown;
  Directions directions = Directions::unknown;
};

}  // namespace nsys_explain
