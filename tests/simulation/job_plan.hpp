#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/time.hpp"
#include "simulation/ends.hpp"
#include "simulation/laws.hpp"

/// Exports of a simulated multi-GPU job with planted faults, and the truth about them.
///
///   JobPlan --simulate()--> SimulatedJob (true time) --write_exports()--> SQLite files as nsys writes them
///                                                    --write_truth()----> truth.json
///
/// A plan is plain data; the same plan gives the same events on every machine.
namespace nsys_explain::synth {

/// A plan that cannot be simulated. The message says problem, why it matters, what to do.
class PlanError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Ranks = nodes x gpus_per_node = tensor x pipeline x data; tensor-parallel neighbours are adjacent ranks, then data,
/// then pipeline (Megatron's order).
struct Layout {
  std::int32_t nodes = 2;
  std::int32_t gpus_per_node = 4;
  std::int32_t tensor_parallel = 1;
  std::int32_t pipeline_parallel = 1;
  std::int32_t data_parallel = 0;  ///< 0: what the others leave over

  std::int32_t ranks() const { return nodes * gpus_per_node; }
};

/// How gradients (and weights) travel between data-parallel ranks.
enum class DataParallelStyle : std::uint8_t {
  all_reduce,     ///< one gradient bucket per layer, overlapped with backward (DDP)
  fully_sharded,  ///< all-gather before each layer, reduce-scatter after its backward (FSDP)
};

/// How tensor-parallel ranks combine activations.
enum class TensorParallelStyle : std::uint8_t {
  all_reduce,
  sequence_parallel  ///< all-gather before, reduce-scatter after
};

/// How pipeline stages exchange activations and gradients.
enum class PipelineStyle : std::uint8_t {
  one_forward_one_backward,  ///< 1F1B; what is sent and received at once is one kernel (Megatron)
  sends_ahead  ///< all forwards first but in the last stage, each send and receive a kernel of its own (PyTorch): both
               ///< sides have them in different orders, so no sender may wait
};

enum class GraphMode : std::uint8_t {
  none,
  whole,  ///< one opaque row per graph launch (nsys' default)
  node    ///< one row per kernel; all share the correlation id of the launch
};

struct Workload {
  std::int32_t steps = 30;
  std::int32_t layers = 8;         ///< per pipeline stage
  std::int32_t micro_batches = 0;  ///< per step; 0: twice the stages with pipeline parallelism, else 1
  double compute_scale = 1;        ///< multiplies every kernel's nominal duration
  std::int64_t gradient_bytes_per_layer = 32 << 20;
  std::int64_t activation_bytes = 16 << 20;
  DataParallelStyle data_parallel_style = DataParallelStyle::all_reduce;
  TensorParallelStyle tensor_parallel_style = TensorParallelStyle::all_reduce;
  PipelineStyle pipeline_style = PipelineStyle::one_forward_one_backward;
  bool mixture_of_experts = false;         ///< an all-to-all before and after each layer's second half
  bool nccl_on_compute_stream = false;     ///< collectives and compute share one stream
  bool shared_nccl_stream = false;         ///< all communicators share one stream instead of one stream each
  std::int32_t synchronise_every = 1;      ///< steps between the host's waits for the GPU; 0: only at the end
  std::int32_t launch_queue_depth = 1024;  ///< launches the host can be ahead of the GPU
  std::int32_t reduce_every = 10;          ///< steps between loss reductions to rank 0 (ncclReduce); 0: never
  std::int32_t restart_at_step = -1;       ///< communicators are destroyed and made anew before this step; -1: never
  GraphMode graph_mode = GraphMode::none;  ///< forward and backward replayed from a CUDA graph
};

/// Transfer time = latency + bytes on the wire per GPU / bus bandwidth. GB = 1e9 bytes.
struct Network {
  Nanoseconds latency_intra_ns = 8'000;
  Nanoseconds latency_inter_ns = 25'000;
  double bandwidth_intra_gbs = 200;
  double bandwidth_inter_gbs = 45;
  double transfer_noise = 0.01;               ///< relative standard deviation per instance
  EndsLaw ends = ends_law("nvlink");          ///< how members of a collective leave
  double end_jitter_scale = 1;                ///< multiplies what that law gives; 0: ends coincide
  std::map<Operation, double> end_jitter_of;  ///< likewise, of some operations only
  bool heavy_tails = false;                   ///< ends scatter by a law without a variance
  Nanoseconds end_bias_max_ns = 0;            ///< each member always leaves later by up to this, uniformly
};

struct Noise {
  double kernel_noise = 0.005;   ///< relative standard deviation of each kernel's duration
  double speed_wander = 0;       ///< likewise, of the time that a GPU takes, which wanders over some eight steps
  Law law = Law::steady;         ///< of kernels; steady: normal
  double pause_probability = 0;  ///< of a host pause, per rank and step
  Nanoseconds pause_mean_ns = 1'000'000;
};

/// What each session's clock says. UTC by the report = true UTC + offset + drift x (time since session start).
/// The offset is drawn per session; the drift per node, because the sessions of a node share its oscillator.
struct Clocks {
  Nanoseconds utc_offset_max_ns = 20'000'000;         ///< uniform in +-
  double drift_max_ppm = 2;                           ///< uniform in +-
  Nanoseconds session_start_spread_ns = 500'000'000;  ///< sessions start within this span
  Nanoseconds gpu_tick_ns = 32;                       ///< GPU times are multiples of this; 1: exact
  // What time services do to the clock of the last node, at this time of its sessions.
  Nanoseconds change_at_ns = 500'000'000;
  Nanoseconds step_ns = 0;                  ///< it jumps forward by this ...
  double slew_ppm = 0;                      ///< ... or runs faster by this ...
  Nanoseconds slew_for_ns = 1'000'000'000;  ///< ... for so long
};

enum class FaultKind : std::uint8_t {
  slow_gpu,
  slow_node,
  late_host,
  extra_work,
  sync_stall,
  blocking_copy,
  allocation,
  slow_link,
  profiler_overhead,
  rotating_jitter,
  uneven_work,
  checkpoint
};

/// What the host does while it pauses, and what of it nsys would record: nothing, an NVTX range, reads in the OS
/// runtime table, a call that loads GPU code (with CUPTI's overhead row), the thread losing its core, CPU samples (with
/// --capture cpu_sampling_us), or a call into MPI.
enum class HostPause : std::uint8_t {
  sleep,
  garbage_collection,
  data_loading,
  file_reading,
  module_loading,
  descheduled,
  computing,
  mpi_wait
};

/// How there is more work: larger grids, more kernels of the same size, more layers with all that they communicate, or
/// forward passes without communication after the step, in a range of their own.
enum class MoreWork : std::uint8_t { larger, more, layers, evaluation };

/// One planted fault. Fields that a kind does not use are ignored; see fault_help().
struct Fault {
  FaultKind kind = FaultKind::slow_gpu;
  std::vector<std::int32_t> ranks;  ///< slow_link: transfers of groups that contain all of these
  std::vector<std::int32_t> nodes;  ///< slow_node; slow_link: groups with members on all of these nodes
  // All ranks with one of these places in the layout; not for slow_link.
  std::vector<std::int32_t> stages, tensor_indices, data_indices;
  double factor = 1.3;
  Nanoseconds pause_ns = 3'000'000;
  std::int64_t bytes = 24 << 20;
  std::int32_t count = 1;
  HostPause pause = HostPause::sleep;
  MoreWork more_work = MoreWork::larger;
  std::int32_t first_step = 0;
  std::int32_t last_step = -1;  ///< -1: the last step of the job
  std::int32_t period = 1;
  double chance = 1;        ///< of striking, in each step in which it may
  Law law = Law::steady;    ///< of pauses, bytes and what a factor adds, from step to step
  double spread = 0;        ///< slow GPUs: each family of kernels has a factor of its own, this much more or less
  bool large_only = false;  ///< slow GPUs: kernels of fewer blocks than a GPU has multiprocessors take no longer

  double factor_at(double strength) const { return law == Law::steady ? factor : 1 + (factor - 1) * strength; }

  bool active(std::int32_t step) const {
    return step >= first_step && (last_step < 0 || step <= last_step) && (step - first_step) % period == 0;
  }
};

struct Capture {
  double drop_share = 0;                    ///< device activities lost at random
  double ragged_share = 0;                  ///< each rank's window loses up to this share of the run at either end
  std::vector<std::int32_t> missing_ranks;  ///< never captured
  bool nvtx = true;
  double lost_call_share = 0;  ///< API rows lost, so that their kernels have no launch
};

enum class FileLayout : std::uint8_t { per_rank, per_node };

/// What the counters of links show.
enum class LinkCounters : std::uint8_t {
  traffic,        ///< what collectives move
  unrelated,      ///< bursts that have nothing to do with collectives
  idle_artefact,  ///< traffic, but idle links read as fully utilised
};

/// Where NCCL's NVTX payload is found; `none` is nsys' default export.
enum class PayloadStyle : std::uint8_t { none, blob, hex_text, json, dynamic_tables };

/// Logs of NCCL Inspector beside the exports; only verbose ones tell when kernels ended.
enum class InspectorLogs : std::uint8_t { none, terse, verbose };

/// What the program passes to NCCL as a communicator's name: nothing; what it is for, so that all tensor groups share a
/// name; or a name of its own for each.
enum class CommunicatorNames : std::uint8_t { none, purpose, group };

/// What tells a process's rank besides NCCL's payload.
enum class RankHint : std::uint8_t { file_name, mpi_ranks, slurm, open_mpi, torchrun, nothing };

struct ExportStyle {
  FileLayout files = FileLayout::per_rank;
  Nanoseconds cpu_sampling_ns = 0;            ///< period of CPU samples of the main threads; 0: none
  PayloadStyle payload = PayloadStyle::blob;  ///< blob and hex_text need nsys 2024.5, dynamic_tables 2026.4
  RankHint rank_hint = RankHint::file_name;
  /// nsys profile -t nccl: ranges of its own, by a category for each communicator; ranks, sequence numbers and all else
  /// as JSON unless the payload style is `none`.
  bool advanced_nccl_trace = false;
  CommunicatorNames communicator_names = CommunicatorNames::none;  ///< of those categories
  std::string nsys_version = "2026.2";                             ///< 2022.4, 2023.3, 2024.5, 2025.5, 2026.2 or 2026.4
  std::string nccl_version = "2.27";  ///< 2.16 .. 2.30; decides payload layouts and kernel names
  InspectorLogs inspector_logs = InspectorLogs::none;
  bool nccl_domain_row = true;           ///< the NVTX row that names domain 1 "NCCL"
  bool shuffled_rows = false;            ///< rows not in time order
  bool lazy = true;                      ///< tables without rows are not created (nsys' default)
  bool utc_timestamps = false;           ///< exported with --ts-normalize=true: times are UTC instead of session time
  bool isolated_devices = false;         ///< every process sees one GPU, as device 0
  bool single_process_per_node = false;  ///< one process drives all GPUs of a node, one thread each
  bool device_tables = true;             ///< TARGET_INFO_GPU and TARGET_INFO_CUDA_DEVICE
  bool operator_ranges = false;          ///< a range of its own text around every other launch, as PyTorch writes them
  std::int32_t repeats = 1;              ///< rows are written this often, one job after the other: exports of any size
                             ///< from one simulated job in memory; GPU metrics and the truth cover the first
  bool gpu_metrics = false;  ///< NVLink throughput samples
  Nanoseconds gpu_metrics_period_ns = 100'000;
  Nanoseconds gpu_metrics_lag_ns = 0;  ///< samples show the traffic this much later
  LinkCounters link_counters = LinkCounters::traffic;
  bool nic_metrics = false;     ///< bytes sent and received by one NIC per GPU, every millisecond
  bool switch_metrics = false;  ///< likewise by the port of the node's leaf switch that this NIC is plugged into
};

struct JobPlan {
  std::uint64_t seed = 1;
  Layout layout;
  Workload workload;
  Network network;
  Noise noise;
  Clocks clocks;
  Capture capture;
  ExportStyle export_style;
  std::vector<Fault> faults;
};

/// The plan with derived values filled in (data_parallel, micro_batches). Throws PlanError where it makes no sense.
JobPlan complete_plan(JobPlan plan);

/// Reads "KIND:key=value,key=value", e.g. "slow_gpu:rank=5,factor=1.3" or "late_host:rank=3,pause=2ms,period=5".
/// Throws PlanError.
Fault parse_fault(const std::string& text);

/// One line per kind: what it does, its keys and their defaults.
std::string fault_help();

std::string fault_kind_name(FaultKind kind);

/// The cause an analysis should report (names of docs/method.md, Cause): "slow_kernel", "launch_starved", ...
std::string expected_cause(const Fault& fault);

/// "persistent", "transient", "periodic" or "rotating" for a job of `steps` steps.
std::string expected_pattern(const Fault& fault, std::int32_t steps);

/// Ranks in which the fault is planted, ascending; empty for rotating_jitter and uneven_work without places (every rank
/// in turn). `layout` is complete.
std::vector<std::int32_t> faulty_ranks(const Fault& fault, const Layout& layout);

}  // namespace nsys_explain::synth
