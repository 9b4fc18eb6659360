#pragma once

#include <cstdint>
#include <vector>

#include "nsys_explain/collectives/classification.hpp"
#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/launch_index.hpp"
#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::collectives {

/// Keys below this are no hashes of NCCL communicators, because no payload told them: lanes (the n-th stream of a trace
/// rank that communicates) and, once lanes were compared, inferred communicators (inference.hpp). NCCL's hashes are 64
/// random bits, so one below it is not to be expected.
inline constexpr std::uint64_t first_nccl_key = 1U << 24;

/// What NCCL's own records say about a communicator, seen from one process.
struct CommunicatorMembership {
  std::uint64_t communicator = 0;
  std::int32_t rank = -1;
  std::int32_t rank_count = -1;
  std::int32_t device = -1;
};

/// One of several collectives that NCCL ran in one kernel.
struct FusedCall {
  Nanoseconds enter_ns = 0;  ///< trace time, of the kernel
  NcclCall call;
};

/// Arrivals of one device of one process, in enter order.
struct DeviceArrivals {
  std::int32_t device_id = 0;
  std::vector<Arrival> arrivals;  ///< trace time; trace_rank not set; position and index set
  std::int64_t without_call = 0;  ///< communication kernels that no NCCL range could be joined to ...
  std::int64_t replayed = 0;      ///< ... because a graph replays them whose capture was not recorded
  std::vector<FusedCall> fused;   ///< by kernel, then in call order
};

/// The collectives of one process: communication kernels joined to NCCL's ranges through the launch call, grouped calls
/// included; those that a CUDA graph replays through the call that captured them. A kernel whose call was not recorded
/// takes the communicator of its neighbours on its stream, where those agree. Each kernel becomes one arrival; a
/// grouped call without a kernel whose copies were recorded becomes a projected one. `launches`: of the process.
std::vector<DeviceArrivals> extract_arrivals(const Trace& trace, const ProcessTrace& process,
                                             const KernelClasses& classes, const LaunchIndex& launches);

/// The table fused_operations: a row per carried collective.
Table fused_operations_table(const std::vector<FusedCall>& fused);

/// Memberships as calls recorded them, each once, sorted by communicator and rank.
std::vector<CommunicatorMembership> communicator_memberships(const ProcessTrace& process);

}  // namespace nsys_explain::collectives
