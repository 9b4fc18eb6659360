#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collectives/classification.hpp"
#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/launch_index.hpp"
#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::collectives {

/// Arrival::communicator, in ascending order: first the n-th stream of a trace rank that communicates (a stream key)
/// or, once streams were compared, a communicator inferred from those (layout.hpp); then all that stays withheld, as
/// nothing tells its communicator;
inline constexpr std::uint64_t withheld_key = (1U << 22) - 1;
/// then what the advanced NCCL trace tells by a category, wherever it runs;
inline constexpr std::uint64_t first_category_key = 1U << 22;
/// then communicators that calls name: by a category whose counterparts on other trace ranks were found,
inline constexpr std::uint64_t first_named_key = 1U << 23;
/// and by NCCL's hashes, which are 64 random bits, so that none below this is to be expected.
inline constexpr std::uint64_t first_nccl_key = 1U << 24;

inline bool names_communicator(std::uint64_t key) {
  return key >= first_named_key;
}

/// What NCCL's own records say about a communicator, seen from one process.
struct CommunicatorMembership {
  std::uint64_t communicator = 0;
  std::int32_t rank = -1;
  std::int32_t rank_count = -1;
  std::int32_t device = -1;
};

/// What the program of a trace rank calls a communicator (ncclConfig_t::commName), which is often what it is for, so
/// that all tensor groups share a name: (trace rank, Arrival::communicator) -> name.
using GivenNames = std::map<std::pair<std::int32_t, std::uint64_t>, std::string>;

/// One of several collectives that NCCL ran in one kernel.
struct FusedCall {
  TraceTime enter;  ///< of the kernel
  NcclCall call;
};

/// Arrivals of one device of one process, in enter order.
struct DeviceArrivals {
  std::int32_t device_id = 0;
  std::vector<TraceArrival> arrivals;  ///< trace_rank not set; position and index set
  std::int64_t without_call = 0;       ///< communication kernels that no NCCL range could be joined to ...
  std::int64_t replayed = 0;           ///< ... because a graph replays them whose capture was not recorded
  std::int64_t without_peer = 0;       ///< messages of hosts that name no peer
  std::vector<FusedCall> fused;        ///< by kernel, then in call order
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

/// What the process calls the communicators of its arrivals, by Arrival::communicator.
std::map<std::uint64_t, std::string> communicator_names(const Trace& trace, const ProcessTrace& process);

}  // namespace nsys_explain::collectives
