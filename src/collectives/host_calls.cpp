#include "collectives/host_calls.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "collectives/host_messages.hpp"
#include "model/hash.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::collectives {
namespace {

constexpr std::uint64_t world_key = fnv1a("MPI_COMM_WORLD");
constexpr std::uint64_t messages_key = fnv1a("MPI point-to-point");

std::size_t main_device(const ProcessTrace& process) {
  const auto most =
      std::max_element(process.devices.begin(), process.devices.end(),
                       [](const DeviceTrace& a, const DeviceTrace& b) { return a.kernels.size() < b.kernels.size(); });
  return static_cast<std::size_t>(most - process.devices.begin());
}

/// Of the thread that made most, in order.
std::vector<MpiCall> calls_of_one_thread(const ProcessTrace& process) {
  std::map<std::uint32_t, std::size_t> of_thread;
  for (const MpiCall& call : process.mpi_calls) ++of_thread[call.thread_id];
  const auto most = std::max_element(of_thread.begin(), of_thread.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<MpiCall> calls;
  for (const MpiCall& call : process.mpi_calls) {
    if (call.thread_id == most->first) calls.push_back(call);
  }
  return calls;
}

/// Numbers for kernels and their launching calls that no other call has.
std::uint32_t first_free_id(const ApiCalls& calls) {
  std::uint32_t latest = 0;
  for (const ApiCall& call : calls) latest = std::max(latest, call.correlation_id);
  return latest + 1;
}

const auto by_time = [](const auto& a, const auto& b) {
  return std::tie(a.start_ns, a.end_ns) < std::tie(b.start_ns, b.end_ns);
};

/// Keys of the communicators of one process's collectives.
class CommunicatorKeys {
 public:
  CommunicatorKeys(const Trace& trace, const std::vector<MpiCall>& calls) {
    for (const MpiCall& call : calls) {
      const bool is_collective = operation_of_mpi(trace.strings[call.name]) != Operation::send_recv;
      if (is_collective && call.communicator == 0) handles_.try_emplace(call.handle, handles_.size());
    }
  }

  /// Who names one communicator only means that of all ranks.
  std::uint64_t of(const MpiCall& call) const {
    if (call.communicator >= first_nccl_key) return call.communicator;
    if (call.communicator != 0) return std::max(mix_bits(call.communicator), first_nccl_key);
    return is_world_handle(call.handle) || handles_.size() == 1 ? world_key : handles_.at(call.handle);
  }

 private:
  std::map<std::uint64_t, std::uint64_t> handles_;
};

}  // namespace

Operation operation_of_mpi(std::string_view function) {
  using Named = std::pair<std::string_view, Operation>;
  // Longer names before those that they begin with.
  static constexpr std::array<Named, 16> names{Named{"MPI_Allreduce", Operation::all_reduce},
                                               Named{"MPI_Allgather", Operation::all_gather},
                                               Named{"MPI_Alltoall", Operation::all_to_all},
                                               Named{"MPI_Barrier", Operation::barrier},
                                               Named{"MPI_Bcast", Operation::broadcast},
                                               Named{"MPI_Gather", Operation::gather},
                                               Named{"MPI_Reduce_scatter", Operation::reduce_scatter},
                                               Named{"MPI_Reduce", Operation::reduce},
                                               Named{"MPI_Scatter", Operation::scatter},
                                               Named{"MPI_I", Operation::send_recv},  // MPI_Isend, _Issend, ...
                                               Named{"MPI_S", Operation::send_recv},  // MPI_Send, _Ssend, _Sendrecv
                                               Named{"MPI_B", Operation::send_recv},
                                               Named{"MPI_M", Operation::send_recv},  // MPI_Mrecv
                                               Named{"MPI_R", Operation::send_recv},
                                               Named{"MPI_Probe", Operation::send_recv},
                                               Named{"MPI_Wait", Operation::send_recv}};
  if (function == "MPI_Scan") return Operation::unknown;
  const auto found =
      std::find_if(names.begin(), names.end(), [&](const Named& name) { return function.starts_with(name.first); });
  return found == names.end() ? Operation::unknown : found->second;
}

std::optional<ProcessTrace> with_kernels_of_calls(const Trace& trace, const ProcessTrace& process,
                                                  const KernelClasses& classes) {
  if (process.mpi_calls.empty() || process.devices.empty()) return std::nullopt;
  for (const DeviceTrace& device : process.devices) {
    const std::vector<bool> communicates = classes.communication_kinds(device);
    if (std::find(communicates.begin(), communicates.end(), true) != communicates.end()) return std::nullopt;
  }
  ProcessTrace result = process;
  result.mpi_calls = messages_in_a_row(trace, calls_of_one_thread(process));
  DeviceTrace& device = result.devices[main_device(result)];
  std::map<StringIndex, std::uint32_t> kinds;
  std::uint32_t id = first_free_id(result.api_calls);
  for (const MpiCall& call : result.mpi_calls) {
    const auto [kind, is_new] = kinds.try_emplace(call.name, static_cast<std::uint32_t>(device.kernel_kinds.size()));
    if (is_new) {
      KernelKind& made = device.kernel_kinds.emplace_back();
      made.context_id = device.kernel_kinds.front().context_id;
      made.stream_id = stream_of_calls;
      made.short_name = made.demangled_name = call.name;
    }
    device.kernels.push_back({call.start_ns, call.end_ns, id, kind->second});
    result.api_calls.push_back({call.start_ns, call.end_ns, call.thread_id, id, call.name, 0, 0});
    ++id;
  }
  device.kernels.sort(by_time);
  result.api_calls.sort(by_time);
  return result;
}

std::vector<DeviceArrivals> arrivals_of_calls(const Trace& trace, const ProcessTrace& with_kernels) {
  std::vector<DeviceArrivals> devices(with_kernels.devices.size());
  for (std::size_t d = 0; d < devices.size(); ++d) devices[d].device_id = with_kernels.devices[d].device_id;
  DeviceArrivals& main = devices[main_device(with_kernels)];
  std::vector<TraceArrival>& arrivals = main.arrivals;
  const CommunicatorKeys keys(trace, with_kernels.mpi_calls);
  std::map<std::uint64_t, std::int32_t> next_position;
  for (const MpiCall& call : with_kernels.mpi_calls) {
    TraceArrival arrival;
    arrival.enter = TraceTime(call.start_ns);
    arrival.exit = TraceTime(call.end_ns);
    if (!arrivals.empty()) arrival.work_ns = arrival.enter - arrivals.back().exit;
    arrival.operation = operation_of_mpi(trace.strings[call.name]);
    arrival.communicator = arrival.operation == Operation::send_recv ? messages_key : keys.of(call);
    arrival.call_bytes = call.bytes;
    arrival.peer_or_root = call.root;
    arrival.kernel_name_hash = static_cast<std::uint32_t>(fnv1a(trace.strings[call.name]));
    if (arrival.operation == Operation::send_recv && call.root >= 0) {
      arrival.directions = direction_of_call(trace.strings[call.name]);
      arrival.kernel_name_hash = static_cast<std::uint32_t>(mix_bits(static_cast<std::uint64_t>(call.tag)));
      arrival.continues = call.request > 0;
    }
    if (arrival.operation == Operation::send_recv && call.root < 0) ++main.without_peer;
    arrival.evidence = Evidence::mpi_call;
    arrival.timing_source = TimingSource::host_call;
    arrival.stream = 0;
    arrival.index = static_cast<std::int32_t>(arrivals.size());
    arrival.position = next_position[arrival.communicator]++;
    arrivals.push_back(arrival);
  }
  return devices;
}

std::map<std::uint64_t, std::string> names_of_call_communicators(const std::vector<DeviceArrivals>& arrivals) {
  std::map<std::uint64_t, std::string> names;
  for (const DeviceArrivals& device : arrivals) {
    for (const TraceArrival& arrival : device.arrivals) {
      if (arrival.communicator == world_key) names[world_key] = "MPI_COMM_WORLD";
      if (arrival.communicator == messages_key) names[messages_key] = "MPI point-to-point";
    }
  }
  return names;
}

}  // namespace nsys_explain::collectives
