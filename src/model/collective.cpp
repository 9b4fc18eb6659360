#include "nsys_explain/model/collective.hpp"

#include "model/text.hpp"
#include "nsys_explain/model/end_model.hpp"

namespace nsys_explain {

std::string_view operation_name(Operation operation) {
  return name_in_order(operation, {"unknown", "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                   "all_to_all", "gather", "scatter", "send_recv", "barrier"});
}

bool is_synchronising(Operation operation) {
  return end_model(operation).synchronises();
}

std::string_view evidence_name(Evidence evidence) {
  return name_in_order(evidence, {"nccl_payload", "mpi_call", "order", "kernel_name"});
}

std::string_view timing_source_name(TimingSource source) {
  return name_in_order(source, {"kernel", "projection", "graph_node", "host_call"});
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
