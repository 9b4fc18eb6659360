#include "nsys_explain/model/collective.hpp"

#include "nsys_explain/model/end_model.hpp"

namespace nsys_explain {

std::string_view operation_name(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::all_gather:
      return "all_gather";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::broadcast:
      return "broadcast";
    case Operation::reduce:
      return "reduce";
    case Operation::all_to_all:
      return "all_to_all";
    case Operation::gather:
      return "gather";
    case Operation::scatter:
      return "scatter";
    case Operation::send_recv:
      return "send_recv";
    case Operation::barrier:
      return "barrier";
    case Operation::unknown:
      break;
  }
  return "unknown";
}

bool is_synchronising(Operation operation) {
  return end_model(operation).synchronises();
}

std::string_view evidence_name(Evidence evidence) {
  switch (evidence) {
    case Evidence::nccl_payload:
      return "nccl_payload";
    case Evidence::mpi_call:
      return "mpi_call";
    case Evidence::order:
      return "order";
    case Evidence::kernel_name:
      break;
  }
  return "kernel_name";
}

std::string_view timing_source_name(TimingSource source) {
  switch (source) {
    case TimingSource::kernel:
      return "kernel";
    case TimingSource::projection:
      return "projection";
    case TimingSource::graph_node:
      return "graph_node";
    case TimingSource::host_call:
      break;
  }
  return "host_call";
}

std::int64_t message_size_bytes(Operation operation, std::int64_t call_bytes, std::int64_t members) {
  if (call_bytes < 0) return -1;
  switch (operation) {
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
    case Operation::gather:
    case Operation::scatter:
      return call_bytes * members;
    default:
      return call_bytes;
  }
}

double bus_bandwidth_factor(Operation operation, std::int64_t members) {
  if (members < 1) return 1;
  const double n = static_cast<double>(members);
  switch (operation) {
    case Operation::all_reduce:
      return 2 * (n - 1) / n;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
    case Operation::gather:
    case Operation::scatter:
      return (n - 1) / n;
    default:
      return 1;
  }
}

}  // namespace nsys_explain
