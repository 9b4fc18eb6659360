#pragma once

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/link_metrics.hpp"
#include "nsys_explain/model/packed_events.hpp"

namespace nsys_explain {

/// One collective, send or receive of one process as NCCL Inspector logged it. NCCL counts the collectives of each kind
/// in each communicator, equally on all members: communicator, operation and sequence name the collective exactly.
/// Sends and receives (Operation::send_recv) are counted together, on each member by itself.
struct InspectorRecord {
  std::uint64_t communicator = 0;   ///< NCCL's hash
  std::int64_t sequence = -1;       ///< NCCL's count of this operation in the communicator
  std::int64_t bytes = -1;          ///< NCCL's per-call size
  Nanoseconds duration_ns = 0;      ///< in the kernel by the GPU's clock, cut to microseconds
  Nanoseconds end_ns = no_time;     ///< when the host saw the kernel end; no_time: not logged (not verbose)
  Nanoseconds dumped_ns = no_time;  ///< when it was written: some time after the end
  std::int32_t rank = -1;           ///< of the process in the communicator
  std::int32_t rank_count = -1;
  std::int32_t peer = -1;  ///< of a send or receive: rank in the communicator
  Operation operation = Operation::unknown;
  Directions directions = Directions::unknown;
};

/// KernelKind::stream_id of the kernels that stand for calls in which the host communicates: CUDA has no such stream.
inline constexpr std::uint32_t stream_of_calls = 0xFFFFFFFE;

/// Index into Trace::strings. 0 is the empty string.
using StringIndex = std::uint32_t;

/// What an export tells of the machine, the software and the capture besides events: {"driver", "580.95.05"}. Names are
/// those of the table run_facts (ingest/metadata.hpp).
struct RunFact {
  std::string name;
  std::string value;

  friend bool operator==(const RunFact&, const RunFact&) = default;
};

/// What many executions of a kernel have in common: name, launch configuration, stream, node of a CUDA graph. Traces
/// repeat a few thousand kinds millions of times.
struct KernelKind {
  std::uint64_t graph_node_id = 0;  ///< 0: not part of a CUDA graph traced by node
  std::uint32_t context_id = 0;
  std::uint32_t stream_id = 0;
  StringIndex short_name = 0;      ///< base function name
  StringIndex demangled_name = 0;  ///< with template and argument lists
  StringIndex mangled_name = 0;    ///< empty where not exported
  std::int32_t grid_x = 0, grid_y = 0, grid_z = 0;
  std::int32_t block_x = 0, block_y = 0, block_z = 0;
  std::int32_t registers_per_thread = 0;
  std::int32_t static_shared_bytes = 0, dynamic_shared_bytes = 0;

  friend bool operator==(const KernelKind&, const KernelKind&) = default;
};

/// One kernel execution on a GPU. Times are trace time (nanoseconds since the session start of its file).
struct Kernel {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint32_t correlation_id = 0;  ///< 0: none; joins ApiCall::correlation_id within one process only
  std::uint32_t kind = 0;            ///< index into DeviceTrace::kernel_kinds

  std::tuple<std::uint32_t> kind_fields() const { return {kind}; }
};
using Kernels = PackedEvents<Kernel, &Kernel::correlation_id>;

/// Copy or set of memory on a GPU. Kinds are nsys' numbers (ENUM_CUDA_MEMCPY_OPER, ENUM_CUDA_MEM_KIND); -1: not
/// exported.
struct MemoryOperation {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::int64_t bytes = 0;
  std::uint32_t correlation_id = 0;
  std::uint32_t context_id = 0;
  std::uint32_t stream_id = 0;
  std::int16_t copy_kind = -1;  ///< -1 for a set
  std::int16_t source_kind = -1;
  std::int16_t destination_kind = -1;  ///< for a set: the kind of the memory set
  bool is_set = false;
};

/// One execution of a whole CUDA graph recorded as a single interval: what ran inside is invisible.
struct GraphLaunch {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint32_t correlation_id = 0;
  std::uint32_t stream_id = 0;
  std::uint32_t graph_id = 0;
  std::uint32_t graph_exec_id = 0;
};

/// One CUDA runtime or driver call on a host thread.
struct ApiCall {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint32_t thread_id = 0;
  std::uint32_t correlation_id = 0;
  StringIndex name = 0;            ///< without the _vNNNN suffix
  std::int16_t return_value = 0;   ///< 0: success
  std::uint16_t name_version = 0;  ///< NNNN of that suffix; 0: the name has none

  auto kind_fields() const { return std::tuple(thread_id, name, return_value, name_version); }
};
using ApiCalls = PackedEvents<ApiCall, &ApiCall::correlation_id>;

/// What a synchronisation waits for (ids of ENUM_CUPTI_SYNC_TYPE).
enum class SyncKind : std::uint8_t { unknown, event, stream_wait_event, stream, context };

/// One synchronisation: the host waits for the GPU, or (stream_wait_event) a stream for an event of another one.
struct Synchronization {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint32_t correlation_id = 0;
  std::uint32_t context_id = 0;
  std::uint32_t stream_id = 0;  ///< no_stream: not bound to one
  std::uint32_t event_id = 0;
  std::uint32_t event_sync_id = 0;  ///< names the record waited for; 0: not exported (nsys before 2025.5)
  SyncKind kind = SyncKind::unknown;
};

inline constexpr std::uint32_t no_stream = 0xFFFFFFFF;

/// cudaEventRecord: marks a place in a stream that others can wait for.
struct EventRecord {
  std::uint32_t correlation_id = 0;
  std::uint32_t context_id = 0;
  std::uint32_t stream_id = 0;
  std::uint32_t event_id = 0;
  std::uint32_t event_sync_id = 0;  ///< 0: not exported
};

/// One allocation or release of GPU or pinned memory (captured with --cuda-memory-usage=true).
struct MemoryEvent {
  Nanoseconds time_ns = 0;
  std::int64_t bytes = 0;
  std::int32_t device_id = 0;
  std::int16_t memory_kind = -1;  ///< ENUM_CUDA_MEM_KIND
  bool is_release = false;
};

/// One call into the operating system's libraries. nsys records only calls longer than its threshold (1 us by default),
/// so sums are lower bounds.
struct OsCall {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint32_t thread_id = 0;
  StringIndex name = 0;
  bool is_nested = false;  ///< within another recorded call: its time is in that call, too
};

/// Why time was spent on a thread that is not the application's own doing (ids of ENUM_CUPTI_OVERHEAD_TYPE; those
/// before nsys 2025.5 follow from the name).
enum class OverheadKind : std::uint8_t {
  undefined,
  unknown,
  jit_compilation,
  buffer_flush,
  instrumentation,
  resource,
  module_loading,
  lazy_function_loading,
  command_buffer_full
};

/// Time that the profiler took from a thread, or that CUDA spent behind the scenes (loading modules, full launch
/// queue).
struct Overhead {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint32_t thread_id = 0;
  StringIndex name = 0;
  OverheadKind kind = OverheadKind::undefined;
  bool is_profiler = true;  ///< false: CUDA's own behaviour, with or without a profiler
};

/// A thread went on or off a CPU.
struct SchedulingEvent {
  Nanoseconds time_ns = 0;
  std::uint32_t thread_id = 0;
  std::int16_t cpu = -1;
  std::int8_t thread_state = 0;  ///< ENUM_SAMPLING_THREAD_STATE
  std::int8_t thread_block = 0;  ///< ENUM_SCHEDULING_THREAD_BLOCK: what it waits for when it goes off; 0: not exported
  bool on_cpu = false;
};

/// Where a thread was when a CPU sampler looked (captured with --sample). Of its call chain one frame tells most: the
/// innermost of a Python file, else the innermost with a known function; else there is a library alone.
struct CpuSample {
  Nanoseconds time_ns = 0;
  std::uint32_t thread_id = 0;
  StringIndex function = 0;  ///< empty: not known
  StringIndex module = 0;    ///< file name of the library, without its directory
  std::int16_t cpu = -1;
};

/// A CUDA call with the place of the program that made it (captured with --cudabacktrace).
struct TracedCall {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint32_t thread_id = 0;
  StringIndex name = 0;   ///< as ApiCall::name
  StringIndex stack = 0;  ///< functions, innermost first, separated by " < "; the profiler's own are left out
};

/// One call into cuBLAS or cuDNN (captured with -t cublas,cudnn).
struct LibraryCall {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint32_t thread_id = 0;
  StringIndex name = 0;
  bool is_cudnn = false;
};

/// How an NVTX event was recorded (ids of ENUM_NSYS_EVENT_TYPE that hold time).
enum class NvtxKind : std::uint8_t { mark, push_pop, start_end };

/// One NVTX range or mark.
struct NvtxRange {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = no_time;  ///< no_time: a mark, or a range still open when the capture stopped
  std::uint32_t thread_id = 0;
  std::uint32_t end_thread_id = 0;  ///< differs from thread_id where a start/end range ended on another thread
  StringIndex text = 0;    ///< range_name() of what was written: millions of texts would differ by a number only
  StringIndex domain = 0;  ///< name of the domain; empty for the default domain
  NvtxKind kind = NvtxKind::push_pop;
  bool is_nccl_call = false;  ///< ProcessTrace::nccl_calls has it, in the order of the ranges

  auto kind_fields() const { return std::tuple(thread_id, end_thread_id, domain, kind, is_nccl_call); }
};
using NvtxRanges = PackedEvents<NvtxRange, &NvtxRange::text>;

/// Which NCCL function an NVTX range of NCCL's domain stands for.
enum class NcclFunction : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  gather,
  scatter,
  send,
  recv,
  group_start,
  group_end,
  comm_init,
  comm_split,
  comm_destroy,  ///< comm_init: every way to make one; comm_destroy: destroy, abort, finalize
  other
};

/// A call into NCCL seen as an NVTX range, with its payload where the export holds one.
/// `bytes` is NCCL's own per-call size (count argument times element size); see message_size_bytes() for its meaning.
struct NcclCall {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = no_time;
  std::uint64_t communicator = 0;  ///< NCCL's communicator hash; 0: not known
  std::int64_t bytes = -1;         ///< -1: not known
  std::int64_t sequence = -1;      ///< sequence number from the advanced NCCL trace; -1: not known
  std::int32_t peer_or_root = -1;
  std::int32_t rank = -1;        ///< comm_*: this process's rank in the communicator
  std::int32_t rank_count = -1;  ///< comm_*: size of the communicator
  std::int32_t device = -1;      ///< comm_*: CUDA device
  std::uint32_t thread_id = 0;
  std::uint32_t category = 0;     ///< the advanced NCCL trace's number of the communicator, within the process; 0: none
  StringIndex category_name = 0;  ///< what the program calls that communicator (ncclConfig_t::commName)
  NcclFunction function = NcclFunction::other;
};

/// A call into MPI in which a thread waits for other processes (a blocking collective, send, receive or completion), or
/// that begins to send or receive. A call for several messages has a row for each.
struct MpiCall {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint64_t communicator = 0;  ///< nsys' id of it, the same on all ranks; 0: not recorded
  std::uint64_t handle = 0;        ///< what the process calls it by; 0: not recorded
  std::int64_t bytes = -1;         ///< that this rank sends, or else receives; -1: not known
  std::uint64_t request = 0;       ///< what begins, or is completed, by its handle; 0: nothing, or not recorded
  std::int32_t root = -1;          ///< or peer: rank in the communicator; -1: not known or none
  std::int32_t tag = -1;           ///< of a message; -1: not known, or any
  std::uint32_t thread_id = 0;
  StringIndex name = 0;  ///< of the function
};

/// How a node of a CUDA graph came to be: captured from a call on a host thread, or copied from another node when its
/// graph was instantiated or cloned.
struct GraphNode {
  Nanoseconds created_ns = 0;
  std::uint64_t node_id = 0;      ///< KernelKind::graph_node_id
  std::uint64_t original_id = 0;  ///< the node that it is a copy of; 0: none
  std::uint32_t thread_id = 0;
};

/// What a GPU can hold and move, as the export tells it (TARGET_INFO_GPU). 0: not told.
struct GpuLimits {
  std::int64_t bandwidth = 0;  ///< device memory, bytes per second
  std::int32_t multiprocessors = 0;
  std::int32_t threads_per_multiprocessor = 0;
  std::int32_t blocks_per_multiprocessor = 0;
  std::int32_t shared_bytes_per_multiprocessor = 0;
  std::int32_t compute_capability_major = 0;
};

/// GPU activity of one trace rank: one device of one process. Every vector is sorted by (start, end).
struct DeviceTrace {
  std::int32_t device_id = 0;
  std::string gpu_name;
  std::string gpu_uuid;
  bool is_gpu_presumed = false;          ///< the export does not map the process' devices to GPUs
  std::int32_t gpu_id = -1;              ///< nsys' number of the GPU on its node (not the CUDA ordinal); -1: not known
  std::string gpu_bus_id;                ///< PCI domain:bus:device.function as nsys writes it; empty: not known
  std::int32_t gpu_bus_rank = -1;        ///< place among the node's GPUs by PCI bus, as NVML counts; -1: not known
  std::vector<RunFact> gpu_facts;        ///< what the GPU can do; empty where the export does not tell
  GpuLimits gpu_limits;                  ///< the same as numbers
  std::vector<KernelKind> kernel_kinds;  ///< in no particular order, which differs with the order of rows
  Kernels kernels;
  std::vector<MemoryOperation> memory_operations;
  std::vector<GraphLaunch> graph_launches;
  GpuSamples samples;  ///< empty where no GPU metrics were captured

  const KernelKind& kind_of(const Kernel& kernel) const { return kernel_kinds[kernel.kind]; }
};

/// What one process recorded. Every vector is sorted by start unless it says otherwise.
struct ProcessTrace {
  std::uint64_t global_pid = 0;
  std::int32_t process_id = 0;
  std::string name;
  std::vector<DeviceTrace> devices;  ///< sorted by device_id; only devices with GPU activity
  ApiCalls api_calls;
  std::vector<Synchronization> synchronizations;
  std::vector<EventRecord> event_records;  ///< sorted by correlation id
  std::vector<MemoryEvent> memory_events;
  std::vector<OsCall> os_calls;
  std::vector<Overhead> overheads;
  std::vector<SchedulingEvent> scheduling_events;
  std::vector<CpuSample> cpu_samples;
  std::vector<TracedCall> traced_calls;
  std::vector<LibraryCall> library_calls;
  NvtxRanges nvtx_ranges;
  std::vector<NcclCall> nccl_calls;
  std::vector<MpiCall> mpi_calls;
  std::vector<GraphNode> graph_nodes;  ///< sorted by node, copies first; empty where graphs were not traced by node
  std::vector<RankClaim> claims;       ///< hold for the whole process
};

/// Which run of a launcher a process belongs to, as its environment says. The value itself is nobody's business.
struct LauncherId {
  std::string variable;    ///< SLURM_JOB_ID, ...
  std::uint64_t hash = 0;  ///< of its value

  friend bool operator==(const LauncherId&, const LauncherId&) = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(variable, hash);
  }
};

/// Everything read from one export. Plain data: what was not recorded is empty, and `warnings` says so.
struct Trace {
  Session session;
  std::vector<RunFact> facts;           ///< of the host and the capture; empty where the export does not tell
  std::vector<std::string> strings;     ///< valid UTF-8; [0] is ""
  std::vector<ProcessTrace> processes;  ///< sorted by global_pid; only those with CUDA or NVTX events
  std::vector<NetworkSeries> network;   ///< sorted by source, device, port, metric
  std::int32_t world_size = 0;          ///< ranks of the job as its environment says (WORLD_SIZE); 0: it does not
  std::vector<LauncherId> launchers;    ///< by variable; those that the environment tells
  bool is_of_pytorch = false;           ///< communicators are known by the names of their groups, which other jobs have
  bool has_kernel_table = false;
  std::vector<Warning> warnings;
};

}  // namespace nsys_explain
