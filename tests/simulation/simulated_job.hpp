#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/time.hpp"
#include "nsys_explain/model/trace.hpp"
#include "simulation/job_plan.hpp"

/// What happened in a simulated job, in true time: integer nanoseconds since the earliest session start.
namespace nsys_explain::synth {

inline constexpr std::uint32_t no_index = 0xFFFFFFFF;

/// CUDA API functions the simulated program calls.
enum class ApiFunction : std::uint8_t {
  launch_kernel,
  launch_kernel_ex,
  memcpy,
  memcpy_async,
  memset_async,
  event_record,
  stream_wait_event,
  stream_synchronize,
  device_synchronize,
  malloc,
  free,
  module_load,
  graph_launch
};

/// One CUDA API call. Its correlation id in the export follows from its index.
struct HostCall {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  ApiFunction function = ApiFunction::launch_kernel;
  std::uint8_t thread = 0;  ///< 0: main thread, 1: autograd thread
};

enum class ActivityKind : std::uint8_t { kernel, copy, set };

/// One kernel, copy or set on the GPU.
struct DeviceActivity {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::int64_t bytes = 0;            ///< copies and sets
  std::uint32_t call = no_index;     ///< index into RankEvents::calls: what launched it
  std::uint32_t arrival = no_index;  ///< index into SimulatedJob::arrivals; no_index: not communication
  std::uint32_t grid_x = 1;
  std::int32_t step = 0;
  std::uint32_t graph_node = 0;  ///< 0: launched directly; else 1 + index into RankEvents::graph_nodes
  std::uint16_t kernel = 0;      ///< index into kernel_catalogue()
  ActivityKind kind = ActivityKind::kernel;
  std::uint8_t stream = 0;  ///< index into stream_ids()
  bool pageable = false;    ///< copies: the host side is pageable memory
  bool to_device = true;    ///< copies: host to device, else device to host
};

/// What an NCCL call passes to NVTX. Members as in NCCL's payloads; -1 where the function has no such field.
struct NcclCallRecord {
  NcclFunction function = NcclFunction::other;
  std::uint64_t communicator = 0;
  std::int64_t bytes = -1;
  std::int32_t peer_or_root = -1;
  std::int32_t rank = -1;
  std::int32_t rank_count = -1;
  std::int32_t device = -1;
};

/// A push/pop range on a host thread.
struct HostRange {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint32_t nccl_call = no_index;  ///< index into RankEvents::nccl_calls: a range of NCCL's domain
  std::uint16_t label = 0;             ///< index into range_labels(), for ranges of the default domain
  std::int32_t number = -1;            ///< appended to the label where >= 0 ("step 3")
  std::uint8_t thread = 0;
};

/// A host wait or a stream's wait for an event.
struct Synchronisation {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint32_t call = no_index;
  std::int32_t type = 3;                  ///< ENUM_CUPTI_SYNC_TYPE: 2 stream waits for event, 3 stream, 4 context
  std::uint8_t stream = 0;                ///< the stream waited for, or that waits
  std::uint32_t event_record = no_index;  ///< type 2: index into RankEvents::event_records
};

struct EventRecord {
  Nanoseconds completed_ns = 0;
  std::uint32_t call = no_index;
  std::uint8_t stream = 0;
};

/// What a main thread did for some time.
struct HostSpan {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
};

/// A kernel in a captured graph, and the call that captured it.
struct GraphNodeRecord {
  Nanoseconds captured_ns = 0;
  std::uint8_t thread = 0;
};

/// A graph as captured and instantiated: [first_node, first_node + nodes) of RankEvents::graph_nodes.
struct CapturedGraph {
  Nanoseconds begin_ns = 0, instantiated_ns = 0;
  std::uint32_t first_node = 0, nodes = 0;
};

/// One launch of a captured graph: [first_activity, first_activity + activities) of RankEvents::activities.
struct GraphReplay {
  std::uint32_t call = no_index;
  std::uint32_t graph = 0;  ///< index into RankEvents::graphs
  std::uint32_t first_activity = 0;
  std::uint32_t activities = 0;
  Nanoseconds start_ns = 0, end_ns = 0;
};

/// Everything one rank did. `calls` and `ranges` are in host order per thread, `activities` in launch order.
struct RankEvents {
  std::vector<HostCall> calls;
  std::vector<DeviceActivity> activities;
  std::vector<HostRange> ranges;
  std::vector<NcclCallRecord> nccl_calls;
  std::vector<Synchronisation> synchronisations;
  std::vector<EventRecord> event_records;
  std::vector<HostSpan> overheads;    ///< the profiler held it up
  std::vector<HostSpan> file_reads;   ///< read(), as the OS runtime trace records it
  std::vector<HostSpan> descheduled;  ///< it had no core
  std::vector<HostSpan> computing;    ///< in functions of the program that nothing but CPU samples shows
  std::vector<HostSpan> mpi_waits;    ///< MPI_Barrier
  std::vector<GraphNodeRecord> graph_nodes;
  std::vector<CapturedGraph> graphs;
  std::vector<GraphReplay> graph_replays;
  std::uint8_t stream_count = 1;
};

struct TrueCommunicator {
  std::string name;  ///< "world", "tensor 3", "data 0", "pipeline 1", ...; restarted ones end in "'"
  std::uint64_t hash = 0;
  std::vector<std::int32_t> ranks;  ///< in the order of NCCL's rank numbers
  std::uint8_t stream = 0;
};

/// One member's part in one instance.
struct TrueArrival {
  std::int32_t rank = -1;
  std::uint32_t activity = no_index;  ///< index into the rank's activities
  std::uint32_t instance = no_index;  ///< index into SimulatedJob::instances
  Nanoseconds enter_ns = 0;
  Nanoseconds exit_ns = 0;
  Nanoseconds wait_ns = 0;  ///< min(latest enter, exit) - enter
  std::int32_t peer = -1;   ///< of a send or receive, in the communicator
  bool sends = false, receives = false;
};

/// One collective operation across its members; arrivals are in order of rank.
struct TrueInstance {
  std::uint32_t communicator = 0;  ///< index into SimulatedJob::communicators
  std::int64_t sequence = 0;       ///< within the communicator, by latest enter
  Operation operation = Operation::unknown;
  bool grouped = false;  ///< made of ncclSend and ncclRecv inside a group
  std::int64_t call_bytes = 0;
  std::int32_t step = 0;
  Nanoseconds last_enter_ns = 0;
  std::int32_t last_rank = -1;  ///< the last to enter (lowest rank of those that tie)
  Nanoseconds transfer_ns = 0;  ///< planned transfer time, before end jitter
  std::uint32_t first_arrival = 0;
  std::uint32_t arrivals = 0;
};

/// Where a rank ran and how nsys would see it.
struct RankPlace {
  std::int32_t node = 0;
  std::int32_t local_rank = 0;
  std::int32_t process_id = 0;
  std::int32_t device_id = 0;  ///< ordinal as the process saw it
  std::uint32_t session = 0;   ///< index into SimulatedJob::sessions
  std::string gpu_uuid;
};

/// One report file and its clock.
struct TrueSession {
  std::string file_name;
  std::int32_t node = 0;
  std::vector<std::int32_t> ranks;
  Nanoseconds start_ns = 0;         ///< true time at trace time 0
  Nanoseconds utc_offset_ns = 0;    ///< UTC by the report - true UTC, at trace time 0
  std::int64_t drift_ppb = 0;       ///< trace time runs faster than true time by this
  Nanoseconds change_at_ns = 0;     ///< true time at which the clock steps, and begins to slew
  Nanoseconds step_ns = 0;          ///< it jumps forward by this
  std::int64_t slew_ppb = 0;        ///< it runs faster by this ...
  Nanoseconds slew_for_ns = 0;      ///< ... for so long
  Nanoseconds system_clock_ns = 0;  ///< the node's monotonic clock at trace time 0
};

struct SimulatedJob {
  std::vector<TrueSession> sessions;
  std::vector<RankPlace> places;  ///< by rank
  std::vector<RankEvents> ranks;  ///< by rank
  std::vector<TrueCommunicator> communicators;
  std::vector<TrueInstance> instances;  ///< by (communicator, sequence)
  std::vector<TrueArrival> arrivals;
  Nanoseconds end_ns = 0;  ///< the last event of the job
};

/// True UTC at true time 0: 2026-03-01 12:00:00.
inline constexpr Nanoseconds true_epoch_utc_ns = 1'772'366'400'000'000'000;

/// Runs the plan. Pure: equal plans give equal jobs. Cost is linear in the number of events. Throws PlanError.
SimulatedJob simulate(const JobPlan& plan);

/// Trace time of `session` at a true time: what the session's export shows before GPU ticks are applied.
Nanoseconds trace_time_ns(const TrueSession& session, Nanoseconds true_ns);

/// utcEpochNs of the session's export.
Nanoseconds reported_utc_start_ns(const TrueSession& session);

/// A session's clock relative to a reference session, in the sense of docs/outputs.md, Times (`clock.sessions`):
/// with u = UTC by the report - epoch, job time = u - offset_ns - drift_ppb * 1e-9 * (u - offset_ns - pivot_ns),
/// where job time is the reference session's u. `pivot_true_ns` is the true time at which the offset holds.
struct RelativeClock {
  double offset_ns = 0;
  double drift_ppb = 0;
};
RelativeClock relative_clock(const TrueSession& session, const TrueSession& reference, Nanoseconds pivot_true_ns);

}  // namespace nsys_explain::synth
