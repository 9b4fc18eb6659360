#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain {

/// What a communication kernel does. The names (operation_name) appear in reports.
enum class Operation : std::uint8_t {
  unknown,
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  gather,
  scatter,
  send_recv,
  barrier
};

std::string_view operation_name(Operation operation);

/// What a kernel of sends and receives does, as its calls tell.
enum class Directions : std::uint8_t { unknown, sends, receives, both };

/// A kernel that sends only need not wait: NCCL keeps what fits into its buffers, so that it may be done before the
/// receiver enters.
inline bool is_one_way(Directions directions) {
  return directions == Directions::sends || directions == Directions::receives;
}

/// Arrival::peer_or_root of a kernel that exchanges with more than one peer.
inline constexpr std::int32_t several_peers = -2;

/// Arrival::stream where it is not known, or a device has as many streams that communicate.
inline constexpr std::uint8_t any_stream = 255;

/// True for operations in which no member can leave before every member has entered.
bool is_synchronising(Operation operation);

/// How the members of an instance were brought together; best first.
enum class Evidence : std::uint8_t { nccl_payload, mpi_call, order, kernel_name };

/// Calls name communicator and operation, whatever the order of what was launched.
inline bool is_told_by_calls(Evidence evidence) {
  return evidence <= Evidence::mpi_call;
}

std::string_view evidence_name(Evidence evidence);

/// Where enter and exit come from: the communication kernel, GPU operations launched inside the call's range where no
/// kernel exists (copy-engine collectives), one member of a CUDA graph traced by node, or a call of the host (MPI).
enum class TimingSource : std::uint8_t { kernel, projection, graph_node, host_call };

std::string_view timing_source_name(TimingSource source);

/// Message size of an operation by the convention of nccl-tests, from NCCL's per-call bytes and the communicator's
/// size: the whole buffer for all-gather, reduce-scatter, all-to-all, gather and scatter (n x per-call bytes), else
/// per-call bytes. -1 where bytes are unknown.
std::int64_t message_size_bytes(Operation operation, std::int64_t call_bytes, std::int64_t members);

/// Bus bandwidth / algorithm bandwidth (nccl-tests PERFORMANCE.md): 2(n-1)/n all-reduce; (n-1)/n all-gather,
/// reduce-scatter, all-to-all, gather, scatter; 1 otherwise.
double bus_bandwidth_factor(Operation operation, std::int64_t members);

/// One member's part in a collective, but for when it was.
struct Arrival {
  /// Time from the latest communication exit on this trace rank before this enter to this enter; no_time for the first
  /// arrival. What happened in it tells why the rank came late.
  Nanoseconds work_ns = no_time;
  std::uint64_t communicator = 0;  ///< key: NCCL's hash, or an inferred one (see collectives/layout.hpp)
  std::int64_t call_bytes = -1;    ///< NCCL's per-call size; -1 unknown
  std::int64_t sequence =
      -1;  ///< NCCL's count of this operation in the communicator, equal on all members; -1: unknown
  std::int32_t trace_rank = -1;
  std::int32_t position = 0;           ///< 0, 1, 2 ... within (trace rank, communicator) in enter order
  std::int32_t peer_or_root = -1;      ///< rank in the communicator; -1 unknown or none
  std::uint32_t kernel_name_hash = 0;  ///< of the short kernel name; part of the symbol where no payload tells more
  Operation operation = Operation::unknown;
  Evidence evidence = Evidence::kernel_name;
  TimingSource timing_source = TimingSource::kernel;
  Directions directions = Directions::unknown;
  std::int32_t index = -1;           ///< 0, 1, 2 ... within the trace rank in enter order
  bool blocking = true;              ///< compute stood still when it ended: what came next had waited for it
  std::uint8_t stream = any_stream;  ///< number of the stream among those of the device that communicate
  bool by_tree = false;              ///< NCCL's algorithm by the kernel's name: its members leave one by one
  bool continues = false;            ///< the call before it, which waits for several messages
  std::int32_t step = -1;            ///< by the trace rank's own count; -1: in none
};

/// Trivially copyable: this is what travels between tool ranks.
template <class Time>
struct ArrivalAt : Arrival {
  Time enter;
  Time exit;
};
using TraceArrival = ArrivalAt<TraceTime>;  ///< as it is extracted, and held by the reader rank
using JobArrival = ArrivalAt<JobTime>;      ///< as it is matched

/// One member's part in one instance: what cannot be worked out from the instance (see wait_ns() and its like), since
/// there may be hundreds of millions of these. Trivially copyable.
struct InstanceArrival {
  JobTime enter;
  JobTime exit;
  Nanoseconds work_ns = no_time;  ///< see Arrival
  Nanoseconds own_lateness_ns = 0;
  std::int32_t trace_rank = -1;
  std::int32_t index = -1;  ///< see Arrival
  TimingSource timing_source = TimingSource::kernel;
  bool blocking = true;         ///< see Arrival
  bool lateness_split = false;  ///< into own and inherited
  std::int32_t step = -1;       ///< see Arrival
};

/// One collective operation across its members. A = latest enter.
struct Instance {
  std::int64_t sequence = 0;       ///< within its communicator, in job-time order
  std::int64_t first_arrival = 0;  ///< its arrivals are [first_arrival, first_arrival + arrivals) of the block
  std::int32_t arrivals = 0;
  std::int32_t members = 0;  ///< size of the communicator
  Operation operation = Operation::unknown;
  bool complete = false;    ///< every member of the communicator is present
  bool comparable = false;  ///< the clocks of all its arrivals are related
  bool resolved = false;    ///< the last arriver is later than the second-last by more than three times the uncertainty
  bool feasible =
      true;  ///< synchronising operations: no member left before the last one entered, within the uncertainty
  std::int64_t message_bytes = -1;     ///< see message_size_bytes
  std::uint32_t kernel_name_hash = 0;  ///< of the first member's kernel: tells algorithms apart
  bool by_tree = false;                ///< as in Arrival, of the first member
  JobTime first_enter;
  JobTime last_enter;
  std::int64_t skew_uncertainty_ns = -1;  ///< one standard uncertainty of last minus second-last enter; -1: not known
  std::int32_t last_trace_rank = -1;
  Nanoseconds transfer_ns = 0;       ///< median over arrivals of max(0, exit - A)
  Nanoseconds end_residual_ns = -1;  ///< latest minus earliest exit; -1 where the clocks are not related
  Nanoseconds caused_wait_ns = 0;    ///< waiting that would vanish without the last arriver's own lateness
};

/// True where lateness (enter - earliest enter) means something.
inline bool has_lateness(const Instance& instance) {
  return instance.comparable && instance.feasible;
}

/// Of one of its arrivals, with A = latest enter: min(A, exit) - enter; 0 without lateness.
inline Nanoseconds wait_ns(const Instance& instance, const InstanceArrival& arrival) {
  if (!has_lateness(instance)) return 0;
  return std::max<Nanoseconds>(0, std::min(instance.last_enter, arrival.exit) - arrival.enter);
}

/// max(0, exit - A); 0 without lateness.
inline Nanoseconds transfer_ns(const Instance& instance, const InstanceArrival& arrival) {
  return has_lateness(instance) ? std::max<Nanoseconds>(0, arrival.exit - instance.last_enter) : 0;
}

/// What its own work does not explain of enter - earliest enter; 0 where that was not told apart.
inline Nanoseconds inherited_lateness_ns(const Instance& instance, const InstanceArrival& arrival) {
  return arrival.lateness_split ? arrival.enter - instance.first_enter - arrival.own_lateness_ns : 0;
}

/// Matched instances of one communicator, consecutive in sequence: the piece that one owner rank works on.
struct MatchedBlock {
  std::int32_t communicator = 0;  ///< index into the run's list of communicators
  std::int64_t unmatched_arrivals = 0;
  std::vector<Instance> instances;
  std::vector<InstanceArrival> arrivals;
};

/// The arrivals of one of its instances.
inline std::span<InstanceArrival> members_of(MatchedBlock& block, const Instance& instance) {
  return std::span(block.arrivals)
      .subspan(static_cast<std::size_t>(instance.first_arrival), static_cast<std::size_t>(instance.arrivals));
}
inline std::span<const InstanceArrival> members_of(const MatchedBlock& block, const Instance& instance) {
  return std::span(block.arrivals)
      .subspan(static_cast<std::size_t>(instance.first_arrival), static_cast<std::size_t>(instance.arrivals));
}

}  // namespace nsys_explain
