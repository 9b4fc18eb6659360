#include <algorithm>

#include "simulation/rank_machine.hpp"

// The part of a rank's machine that calls NCCL.
namespace nsys_explain::synth {
namespace {

/// NCCL's NVTX range for an ungrouped operation.
NcclFunction function_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return NcclFunction::all_reduce;
    case Operation::all_gather:
      return NcclFunction::all_gather;
    case Operation::reduce_scatter:
      return NcclFunction::reduce_scatter;
    case Operation::broadcast:
      return NcclFunction::broadcast;
    case Operation::reduce:
      return NcclFunction::reduce;
    case Operation::all_to_all:
      return NcclFunction::all_to_all;
    default:
      return NcclFunction::other;
  }
}

}  // namespace

NcclCallRecord RankMachine::payload_of(const Op& op) const {
  const Channel& channel = topology_.channels[static_cast<std::size_t>(op.channel)];
  NcclCallRecord record;
  record.function = function_of(op.operation);
  record.communicator = topology_.communicators[channel.communicator].hash;
  record.bytes = op.bytes;
  record.peer_or_root = op.root;
  return record;
}

void RankMachine::nccl_range(const NcclCallRecord& record, Nanoseconds start_ns, Nanoseconds end_ns,
                             std::uint8_t thread) {
  events_.ranges.push_back({start_ns, end_ns, static_cast<std::uint32_t>(events_.nccl_calls.size()), 0, -1, thread});
  events_.nccl_calls.push_back(record);
}

/// ncclGroupStart and the sends and receives of a group; ncclGroupEnd, which launches, is the caller's.
void RankMachine::grouped_calls(const Op& op) {
  NcclCallRecord start;
  start.function = NcclFunction::group_start;
  nccl_range(start, now_ns_, now_ns_ + 400, op.thread);
  now_ns_ += 600;
  const auto peer_call = [&](NcclFunction function, std::int32_t peer) {
    NcclCallRecord record = payload_of(op);
    record.function = function;
    record.peer_or_root = peer;
    nccl_range(record, now_ns_, now_ns_ + 900, op.thread);
    now_ns_ += 1'200;
  };
  if (op.operation == Operation::all_to_all) {
    const std::uint32_t communicator = topology_.channels[static_cast<std::size_t>(op.channel)].communicator;
    const auto members = static_cast<std::int32_t>(topology_.communicators[communicator].ranks.size());
    for (std::int32_t peer = 0; peer < members; ++peer) {
      peer_call(NcclFunction::send, peer);
      peer_call(NcclFunction::recv, peer);
    }
  } else {
    if (op.sends) peer_call(NcclFunction::send, op.root);
    if (op.receives) peer_call(NcclFunction::recv, op.root);
  }
}

void RankMachine::launch_collective(const Op& op) {
  if (in_graph_) {
    launch(op, ApiFunction::graph_launch, 0);
    return;
  }
  now_ns_ += cost(Purpose::host_gap, 3'000, 8'000);
  if (op.grouped) grouped_calls(op);
  // The range is a push/pop range on the calling thread; it covers the launch, not the transfer.
  const Nanoseconds start = now_ns_;
  const std::size_t range = events_.ranges.size();
  NcclCallRecord record = payload_of(op);
  if (op.grouped) {
    record = {};
    record.function = NcclFunction::group_end;
  }
  nccl_range(record, start, start, op.thread);
  now_ns_ += 1'500;
  launch(op, ApiFunction::launch_kernel_ex, cost(Purpose::api_cost, 4'000, 7'000));
  now_ns_ += 1'000;
  events_.ranges[range].end_ns = now_ns_;
}

/// ncclCommInitRankConfig (2.23 and later, else ncclCommInitRank) or ncclCommDestroy for every communicator of the
/// rank.
void RankMachine::communicator_calls(const Op& op) {
  const bool make = op.kind == OpKind::make_communicators;
  const bool restarted = plan_.workload.restart_at_step >= 0 && step_ >= plan_.workload.restart_at_step;
  const std::int32_t generation = restarted && make ? 1 : 0;
  if (!make) now_ns_ = std::max(now_ns_, device_idle_ns());
  std::vector<std::int32_t> done;
  for (std::size_t role = 0; role < role_count; ++role) {
    const std::int32_t index = topology_.communicator(static_cast<Role>(role), rank_, generation);
    if (index < 0 || std::find(done.begin(), done.end(), index) != done.end()) continue;
    done.push_back(index);
    const TrueCommunicator& communicator = topology_.communicators[static_cast<std::size_t>(index)];
    NcclCallRecord record;
    record.function = make ? NcclFunction::comm_init : NcclFunction::comm_destroy;
    record.communicator = communicator.hash;
    record.rank_count = static_cast<std::int32_t>(communicator.ranks.size());
    record.rank = static_cast<std::int32_t>(std::find(communicator.ranks.begin(), communicator.ranks.end(), rank_) -
                                            communicator.ranks.begin());
    record.device = place_.device_id;
    const Nanoseconds duration = make ? 3'000'000 : 200'000;
    nccl_range(record, now_ns_, now_ns_ + duration, op.thread);
    now_ns_ += duration + 50'000;
  }
}

}  // namespace nsys_explain::synth
