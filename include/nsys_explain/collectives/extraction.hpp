#pragma once

#include <cstdint>
#include <vector>

#include "nsys_explain/collectives/classification.hpp"
#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::collectives {

/// Keys below this are lanes (the n-th stream of a trace rank that communicates), not hashes of NCCL communicators: no
/// payload told the communicator. NCCL's hashes are 64 random bits, so one below it is not to be expected.
inline constexpr std::uint64_t first_nccl_key = 1U << 16;

/// What NCCL's own records say about a communicator, seen from one process.
struct CommunicatorMembership {
  std::uint64_t communicator = 0;
  std::int32_t rank = -1;
  std::int32_t rank_count = -1;
  std::int32_t device = -1;
};

/// Arrivals of one device of one process, in enter order.
struct DeviceArrivals {
  std::int32_t device_id = 0;
  std::vector<Arrival> arrivals;  ///< trace time; trace_rank not set; position and index set
  std::int64_t without_call = 0;  ///< communication kernels that no NCCL range could be joined to
  std::int64_t fused = 0;         ///< kernels that carry several calls
};

/// The collectives of one process: communication kernels joined to NCCL's ranges through the launch call, grouped calls
/// included. Each kernel becomes one arrival; a grouped call without a kernel whose copies were recorded becomes a
/// projected one.
std::vector<DeviceArrivals> extract_arrivals(const Trace& trace, const ProcessTrace& process,
                                             const KernelClasses& classes);

/// Memberships recorded by communicator creation and destruction, each once, sorted by communicator and rank.
std::vector<CommunicatorMembership> communicator_memberships(const ProcessTrace& process);

}  // namespace nsys_explain::collectives
