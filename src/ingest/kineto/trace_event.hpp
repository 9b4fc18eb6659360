#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain::ingest {

/// Microseconds as JSON writes them ("1682725898236567", "4426.114", "1.5e3") in nanoseconds, exact; what is finer is
/// cut off. Empty where it is no number, or one beyond 64 bits.
std::optional<Nanoseconds> nanoseconds_of(std::string_view microseconds);

/// What PyTorch says of a collective, on its operators (since 2023) and on its kernels (Kineto from April 2024 on,
/// "Seq" from 2026); -1 and "": not told. Names of its fields: torch/csrc/profiler/util.h.
struct CollectiveFields {
  std::string name;         ///< "Collective name": "allreduce", "_allgather_base", ...
  std::string data_type;    ///< "dtype": "Float", "BFloat16", ...
  std::string group_name;   ///< "Process Group Name": unique in the job
  std::string group_ranks;  ///< "Process Group Ranks": "[0, 1, 2, 3]", long ones with "..." in their middle
  std::int64_t sent_elements = -1, received_elements = -1, group_size = -1, sequence = -1;
  std::int64_t source_rank = -1, destination_rank = -1;  ///< of point-to-point, in the job
};

/// One complete event ("ph": "X"), or the name of a process ("ph": "M"), with what is read of it. -1: not told.
struct TraceEvent {
  bool is_complete = false, is_process_name = false;
  std::string category;
  std::string name;                                  ///< of a process: its name
  std::optional<Nanoseconds> start_ns, duration_ns;  ///< start: since the trace's base time
  std::int64_t process = -1, thread = -1;            ///< -1: text
  std::int64_t device = -1, context = -1, stream = -1, correlation = -1, bytes = -1, graph_node = -1;
  std::int64_t registers = -1, shared_bytes = -1;
  std::array<std::int64_t, 3> grid{}, block{};
  std::string wait_kind;  ///< of synchronisation: "Stream Wait Event", ...
  std::int64_t recorded_stream = -1, recorded_correlation = -1, cuda_event = -1;
  CollectiveFields collective;
};

/// One of a process's GPUs; 0: not told.
struct DeviceProperties {
  std::int64_t id = 0, memory_bytes = 0, major = 0, minor = 0, multiprocessors = 0;
  std::int64_t threads_per_multiprocessor = 0, warp_threads = 0, shared_bytes_per_multiprocessor = 0;
  std::string name;
};

struct DistributedInfo {
  std::int64_t rank = -1, world_size = -1;
};

/// Reads JSON of single events and members of a trace. None of them throws.
class EventParser {
 public:
  EventParser();
  ~EventParser();
  /// Empty where the text is no JSON, or lacks what every event has.
  std::optional<TraceEvent> event(const std::string& object);
  std::vector<DeviceProperties> devices(const std::string& array);
  DistributedInfo distributed(const std::string& object);
  std::string text(const std::string& value);  ///< of a JSON string; else empty

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

/// A JSON integer of which nothing else follows; -1 where it is none.
std::int64_t integer_or_none(std::string_view token);

/// A collective as NCCL's own NVTX range would tell it.
struct CollectiveCall {
  std::string label;    ///< "ncclAllReduce"
  std::string payload;  ///< in JSON, as decode_json_payload reads it
};

/// `job_rank`: of this trace, -1 unknown. Empty where the fields name no collective that NCCL runs. A communicator's
/// number is a hash of the group's name and ranks, which all its members write alike; sizes are those that NCCL counts
/// (of all-gathers what one rank sends, of reduce-scatters what one receives).
std::optional<CollectiveCall> collective_call(const CollectiveFields& fields, std::int64_t job_rank);

/// Place of a rank of the job in "[0, 2, 4]"; -1 where it is not there, or where the list is cut.
std::int64_t place_in_group(const std::string& group_ranks, std::int64_t job_rank);

}  // namespace nsys_explain::ingest
