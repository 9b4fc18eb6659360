#pragma once

#include <span>
#include <string>
#include <vector>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::collectives {

/// One launch opportunity on one host thread: a single NCCL call, or the end of an outermost group with all calls made
/// since its start. NCCL launches the kernels of a group inside ncclGroupEnd.
struct NcclGroup {
  Nanoseconds start_ns = 0;  ///< of the range in which the launches happen
  Nanoseconds end_ns = 0;
  std::uint32_t thread_id = 0;
  bool inside_all_to_all = false;  ///< PyTorch says so by a range around the calls
  std::vector<NcclCall> calls;     ///< data-moving calls only, in call order
};

/// Groups sorted by (thread, start); those of one thread do not overlap.
std::vector<NcclGroup> find_nccl_groups(const Trace& trace, const ProcessTrace& process);

/// The group in whose range a launch at this time on this thread lies; nullptr if none.
const NcclGroup* enclosing_group(std::span<const NcclGroup> groups, std::uint32_t thread_id, Nanoseconds time_ns);

/// The operation a call takes part in; unknown for calls that move no data.
Operation operation_of(NcclFunction function);

/// What one kernel of a group carries.
struct CarriedCall {
  Operation operation = Operation::unknown;
  std::uint64_t communicator = 0;  ///< communicator_key
  std::int64_t call_bytes = -1;
  std::int64_t sequence = -1;
  std::int32_t peer_or_root = -1;
  Directions directions = Directions::unknown;
  std::vector<NcclCall> fused;  ///< the collectives, where one kernel carries several
};

/// The communicator that a call names: NCCL's hash, else the key of its category; 0: none.
std::uint64_t communicator_key(const NcclCall& call);

/// Shares the calls of a group out to the kernels it launched (in launch order). One entry per kernel.
std::vector<CarriedCall> share_out_calls(const NcclGroup& group, std::size_t kernels);

}  // namespace nsys_explain::collectives
