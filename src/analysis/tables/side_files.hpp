#pragma once

#include "analysis/window/window.hpp"
#include "nsys_explain/model/time.hpp"

/// What the user gave besides the traces, and its tables.
namespace nsys_explain::analysis {

// What a GPU can do at most.

/// Dense peaks (no structured sparsity) at boost clock, from NVIDIA's data sheets; tensor cores where the type has
/// them. 0: the GPU does not have the type, or the sheet does not tell.
struct GpuPeaks {
  std::string name;  ///< the GPU's name has all of these words, in any order and case
  double fp64_tflops = 0, fp32_tflops = 0, tf32_tflops = 0, fp16_tflops = 0, fp8_tflops = 0;
  double bandwidth_gbs = 0;  ///< device memory; GB = 1e9
  int multiprocessors = 0;
  int threads_per_multiprocessor = 0, blocks_per_multiprocessor = 0;
  int shared_bytes_per_multiprocessor = 0;  ///< 65,536 registers everywhere
  int shared_bytes_reserved_per_block = 0;  ///< 1024 from compute capability 8.0 on

  double tflops(std::string_view type) const;  ///< "fp64", "fp32", "tf32", "fp16" (and bf16), "fp8"; 0 for others
};

/// The user's entries come first.
class PeakTable {
 public:
  /// Built-in entries only.
  PeakTable() = default;
  explicit PeakTable(std::vector<GpuPeaks> own) : own_(std::move(own)) {}
  /// What is known of the GPU: the user's entry for its name first, then what the export itself tells, then the
  /// built-in entry. Of each list the first entry that fits counts. Empty where none of the three tells anything.
  std::optional<GpuPeaks> find(std::string_view gpu_name, const GpuLimits& exported = {}) const;

 private:
  std::vector<GpuPeaks> own_;
};

/// Lines `KEY=VALUE ... NAME`: fp64, fp32, tf32, fp16, fp8 (TFLOP/s), bandwidth (GB/s), then words of the GPU's name.
/// Throws std::runtime_error: problem, why it matters, what to do, with the line.
PeakTable parse_gpu_peaks(std::string_view text);

/// Share of a multiprocessor's thread slots that blocks of this shape can fill (the occupancy of CUDA's calculator:
/// registers are given to warps in units of 256, shared memory to blocks in units of 128 bytes).
struct Occupancy {
  double percent = 0;
  int blocks = 0;          ///< resident on one multiprocessor
  std::string_view limit;  ///< "threads", "blocks", "registers" or "shared memory": what allows no more
};
/// Empty where the GPU's limits or the block's size are not known.
std::optional<Occupancy> theoretical_occupancy(const GpuPeaks& gpu, int threads_per_block, int registers_per_thread,
                                               int shared_bytes_per_block);

// What other tools know about kernels and a trace does not: work done, bytes moved, how far units were used.

/// Averages over the profiled launches of one kernel, from Nsight Compute. Negative: the metric was not collected.
struct NcuKernel {
  std::string name;  ///< as Nsight Compute shows it
  std::int64_t launches = 0;
  double flops = -1;       ///< per launch: add + mul + 2 fma of FP64, FP32, FP16, and tensor operations where counted
  double dram_bytes = -1;  ///< per launch
  double sm_percent = -1, dram_percent = -1, tensor_percent = -1, l2_hit_percent = -1, occupancy_percent = -1;
  double bank_conflicts = -1;                            ///< per launch: of loads from and stores to shared memory
  double sectors_per_load = -1, sectors_per_store = -1;  ///< of 32 bytes of global memory, by a request of a warp
  /// Why warps do not issue, by reason, summed over the launches; in the unit of the metrics that were collected.
  std::map<std::string, double> stalls;
};

/// The reason that stalls most; empty where none was collected.
std::string top_stall(const std::map<std::string, double>& stalls);

/// The CSV that `ncu --csv` prints, both its forms: one row per metric (default page) and one row per launch (--page
/// raw). Lines before the header (ncu's own messages) are left out. ncu writes numbers by the locale it runs in: a
/// decimal comma is recognised. Throws std::runtime_error: problem, why it matters, what to do.
std::vector<NcuKernel> parse_ncu_csv(std::string_view text);

/// Matrix multiplications that one process logged, by type.
struct LoggedGemms {
  std::int64_t calls = 0;
  double flops = 0;  ///< 2 M N K batch, four times that of complex numbers, summed
};
/// By process id (0 where the log does not tell), then type ("fp64", "fp32", "tf32", "fp16", "fp8", "fp4", "int8").
using GemmLog = std::map<std::int64_t, std::map<std::string, LoggedGemms>>;

/// The logs of cuBLAS (CUBLAS_LOGINFO_DBG=1) and cuBLASLt (CUBLASLT_LOG_LEVEL=2 or above), also mixed: what cuBLAS
/// hands on to cublasLt (cublasLtTSTMatmul and the like) counts where the process's cuBLAS log does not hold it
/// already. Throws std::runtime_error where they hold no multiplication.
GemmLog parse_cublas_log(std::string_view text);

/// Bytes of weights that each launch of the kernels must read.
struct WeightRule {
  double bytes = 0;
  Regex pattern;  ///< searched in the demangled name
};

/// Lines `BYTES PATTERN`; k, M, G after the number are 1e3, 1e6, 1e9. Throws std::runtime_error.
std::vector<WeightRule> parse_weights(std::string_view text);

// Work and data movement of kernels against what the GPU can do.

/// What the user gave for it; empty parts give tables without rows.
struct RooflineEvidence {
  PeakTable peaks;
  std::vector<NcuKernel> ncu;
  GemmLog gemms;
  std::vector<WeightRule> weights;
};

/// Shapes of launches that table kernel_occupancy keeps for each trace rank: those with the most time.
inline constexpr std::size_t most_shapes = 500;

/// The tables
/// - kernel_occupancy: theoretical occupancy of each kernel and launch configuration, with what limits it, and waves of
///   blocks; for GPUs whose limits are known.
/// - model_flops: FLOPs of logged matrix multiplications (2MNK) over the time of GEMM kernels and over the window, and
///   the peak of the GPU and type: MFU. `scaled` is 1 where log and trace disagree on the number of calls: then FLOPs
///   are the log's average per call times the trace's GEMM kernels.
/// - roofline: kernels that Nsight Compute profiled: FLOPs and DRAM bytes per launch over the durations in this trace.
/// - kernel_stalls: why their warps did not issue.
/// - weight_bandwidth: bytes of weights over kernel time (GEMV and other kernels that read each weight once).
/// Peaks that are not known are 0, and so are shares of them.
std::vector<Table> roofline_tables(const RankEvents& events, const RooflineEvidence& evidence);

// Samples of GPU clocks, power and temperature: from outside the trace (NVML), joined with it by UTC, and from its own
// GPU metrics.

/// One sample of one GPU. Negative numbers: not in the file.
struct GpuSample {
  Nanoseconds utc_ns = 0;
  std::string host;         ///< empty: the file does not tell
  std::string uuid;         ///< without "GPU-"; empty: the file does not tell
  std::string bus_id;       ///< as plain_bus_id writes it; empty: the file does not tell
  std::int64_t index = -1;  ///< of NVML and nvidia-smi, which count by PCI bus
  double sm_clock_mhz = -1, max_sm_clock_mhz = -1, memory_clock_mhz = -1;
  double utilization_percent = -1, power_w = -1, temperature_c = -1, memory_used_mib = -1;
  double sm_active_percent = -1, tensor_active_percent = -1, dram_active_percent = -1;  ///< DCGM only
  bool is_throttled = false;  ///< the driver says so: a reason other than idle or application clocks is active
};

/// A PCI bus id in one way of writing: nvidia-smi has eight digits of the domain in capitals, nsys four in lower case.
/// Empty for what is none ("[N/A]").
std::string plain_bus_id(std::string_view bus_id);

/// The CSV of `nvidia-smi --query-gpu=timestamp,... --format=csv -lms N`, or a file of that kind with the columns time
/// (or timestamp, utc_ns), host, uuid (or gpu_uuid), pci.bus_id, index (or gpu), sm_clock, ... in any order: names are
/// compared without units, "clocks.current." and case. Times: nanoseconds, microseconds, milliseconds or seconds of UTC
/// (by size), or "2026/01/31 12:00:00.123", also with 'T' and a zone ("Z", "+01:00"); nvidia-smi writes the host's
/// local time without one: `utc_offset_s` is what that is ahead of UTC. DCGM's names of fields (DCGM_FI_DEV_SM_CLOCK,
/// SMCLK) are known, too, and what `dcgmi dmon` prints where each line has a time before it (| ts '%.s'); and the text
/// of DCGM's exporter for Prometheus (rows_of_exporter). Throws std::runtime_error: problem, why it matters, what to
/// do.
std::vector<GpuSample> parse_gpu_samples(std::string_view text, std::int64_t utc_offset_s);

/// The tables
/// - gpu_samples: a row for each source with samples of this rank's GPU during its GPU activity: how many, their median
///   clock, power and temperature.
/// - gpu_throttling: spans in which the GPU ran slower than it should while it was used: the driver says so, or the SM
///   clock is below 90% of the highest seen while the GPU is in use.
/// Sources: "nvml" (`samples`; in use from a utilisation of 50% on, or while a kernel runs where that is not sampled),
/// and "gpu_metrics", the GPC clock that the trace itself holds (--gpu-metrics-devices): means over bins of 1 ms of the
/// samples taken while a kernel runs.
/// A sample of NVML belongs to the GPU by UUID, else by host and PCI bus, else by host and index; where the export does
/// not tell the buses of the node's GPUs the index is compared with the CUDA ordinal that the process saw.
std::vector<Table> gpu_sample_tables(const RankEvents& events, const std::vector<GpuSample>& samples);

/// A line of text for Prometheus: `NAME{LABELS} VALUE`. A time is before the name, or behind the value; empty: none.
struct ExporterMetric {
  std::string_view name, labels, value, time;
};

/// Without a name where the line is something else, or no name begins like that in it.
ExporterMetric exporter_metric_of(std::string_view line, std::string_view name_begin);

/// Of `labels` as {gpu="0",UUID="GPU-ab"}; empty where there is none.
std::string label_of(std::string_view labels, std::string_view name);

/// The text of DCGM's exporter for Prometheus, scraped again and again into one file, as rows of a CSV: time, uuid,
/// host, index, and a column for each DCGM_FI_ name. Times are before the names, as date +%s.%3N writes them, or behind
/// the values, in ms. Rows of one time and GPU are one. Empty: it is something else.
///
///     1764250000.250 DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-ab",Hostname="n1"} 1980
///     DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-ab",Hostname="n1"} 1980 1764250000250
std::vector<std::vector<std::string>> rows_of_exporter(std::string_view text);

/// Table served_models of what a Triton server writes at /metrics (counters nv_inference_..., sums in microseconds). Of
/// a text with several scrapes each counter is its last value less its first one; it is its last value where the text
/// has one, or the server began anew. Counters of several GPUs are added. Without rows where the text is something
/// else.
///
///     nv_inference_request_success{model="bert",version="1"} 1200
Table served_models_table(std::string_view text);

// What the clients of a server saw: requests as a benchmark or the server itself logged them (--requests).

/// One request. no_time, and -1 for tokens: not in the file, nor to be worked out.
struct Request {
  Nanoseconds arrival_ns = no_time, end_ns = no_time;  ///< of whatever clock the file has
  Nanoseconds first_token_ns = no_time;                ///< from the arrival to the first token
  Nanoseconds latency_ns = no_time;                    ///< from the arrival to the end
  Nanoseconds queue_ns = no_time;                      ///< from the arrival to the start of its work
  std::int64_t prompt_tokens = -1, output_tokens = -1;
};

struct RequestLog {
  std::vector<Request> requests;
  std::int64_t failed = 0;           ///< the file says so
  std::int64_t unusable = 0;         ///< lines without any time, or with times that contradict each other
  Nanoseconds elapsed_ns = no_time;  ///< of the whole benchmark; no_time: from the first arrival to the last end
  Table served_models;               ///< instead of requests, where the file holds a server's counters
};

/// A CSV with a line per request. Columns in any order, by these names and common others (docs/input.md): arrival,
/// start, first_token, end (points in time); ttft, latency, queue_time (durations); prompt_tokens, output_tokens;
/// success. A name may end in its unit (_ns, _us, _ms, _s): without one durations are seconds, and points in time what
/// makes them a time between 2001 and 2286, or seconds. Or the counters of a Triton server. Throws std::runtime_error:
/// problem, why it matters, what to do.
RequestLog parse_requests(std::string_view text);

/// The tables request_totals, request_latencies and served_models; without rows where no file was given.
std::vector<Table> request_tables(const RequestLog& log);

// What NCCL's own log (NCCL_DEBUG=INFO) tells of communicators, of what connects their members, and of how collectives
// ran (with NCCL_DEBUG_SUBSYS=INIT,GRAPH,P2P,SHM,NET,TUNING or ALL). Facts as logged: nothing is concluded here.

/// A member of a communicator, as its process logged it.
struct LoggedMember {
  std::string host, version, network;  ///< empty: not logged
  std::int64_t process_id = -1, cuda_device = -1;
  std::int64_t ranks = -1, nodes = -1;
  std::int64_t collective_channels = -1, nvls_channels = -1, p2p_channels = -1;  ///< -1: not logged
};

struct NcclLog {
  using Member = std::pair<std::string, std::int64_t>;  ///< communicator (NCCL's hash), rank in it
  /// Communicator, sender, receiver, transport.
  using Connection = std::tuple<std::string, std::int64_t, std::int64_t, std::string>;
  /// Operation, bytes, algorithm, protocol.
  using Choice = std::tuple<std::string, std::int64_t, std::string, std::string>;
  std::map<Member, LoggedMember> members;
  std::map<Connection, std::set<std::string>> connections;  ///< channels: both ends may log one
  std::map<Choice, std::int64_t> choices;                   ///< how often
};

/// Adds what the text of one log says. Lines of others and of kinds that are not known are passed over; nothing throws.
void add_nccl_log(std::string_view text, NcclLog& log);

/// The tables nccl_members, nccl_connections and nccl_choices; without rows where no log was given.
std::vector<Table> nccl_log_tables(const NcclLog& log);

/// What the user gave besides the traces; the same on every tool rank and for every trace rank.
struct AnalysisOptions {
  WindowRequest window;
  std::vector<PhaseRule> phase_rules;
  RooflineEvidence roofline;
  std::vector<GpuSample> gpu_samples;
  bool gpu_trace = false;  ///< also the table with a row per activity
};

}  // namespace nsys_explain::analysis
