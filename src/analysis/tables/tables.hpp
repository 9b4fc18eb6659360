#pragma once

#include "analysis/trace/launches.hpp"
#include "analysis/trace/nvtx_ranges.hpp"
#include "analysis/window/steps.hpp"
#include "nsys_explain/model/report_detail.hpp"
#include "nsys_explain/model/table.hpp"

/// The tables of one trace rank.
namespace nsys_explain::analysis {

/// Where the time of one device went, in trace time, from the first start to the last end of its GPU activity. Unions
/// of intervals, so concurrent work counts once; where kinds overlap, time belongs to the first of: compute,
/// communication, copy, opaque graph. compute + exposed communication + copy + opaque graph + idle = window, exactly
/// (docs/method.md, Budgets). All zero for a device without activity.
/// `communication_kinds`: by kernel kind of the device.
Budget compute_budget(const DeviceTrace& device, const std::vector<bool>& communication_kinds,
                      std::span<const Interval> holes = {});

// Why a device had nothing to do (docs/method.md, Idle gaps). A gap is a time without any GPU activity between the
// first and the last one; the gaps add up to idle_ns of the budget.

/// `launch_starved`: the call that launched the next activity began after the gap did: the host was late.
/// `dependency_stalled`: it was launched in time, behind a wait for an event of another stream.
/// `other`: neither, or the launching call is not in the trace.
enum class IdleCause : std::uint8_t { launch_starved, dependency_stalled, other };
inline constexpr std::size_t idle_cause_count = 3;

std::string_view idle_cause_name(IdleCause cause);

/// Tables `idle_causes` (one row per cause: how many gaps, their lengths, share of the window) and `idle_gaps` (the
/// longest 200 gaps by start, with what ended them).
std::vector<Table> idle_tables(const RankEvents& events);

// How one device's time is spread over streams, over time, and over CUDA graphs.

/// Tables `streams` (one row per stream: its work and its union of times) and `stream_concurrency` (how long exactly k
/// streams were busy at once, k from 0; the rows add up to the window from the first start to the last end).
std::vector<Table> stream_tables(const RankEvents& events);

/// Table `communication_overlap` by base name of the communication kernels, most time first: how much of their
/// durations compute kernels of the same device ran, too (nsys' nccl_gpu_overlap_trace, with every kind of
/// communication kernel instead of names that begin with nccl). Sums over executions: those that run at once both
/// count. `with_trace`: also table `communication_overlap_trace`, with a row for each.
std::vector<Table> communication_overlap_tables(const RankEvents& events, bool with_trace);

/// Table `gpu_utilisation`: the window in at most 256 spans, each cut up as the budget is: compute, exposed
/// communication, copies, opaque graphs and idle add up to the span. activity_ns is the sum of durations, which
/// concurrent work can push beyond the span (nsys' gpu_time_util).
Table utilisation_table(const RankEvents& events);

/// Table `cuda_graphs`: graphs recorded as one interval, by graph: what runs inside them is invisible.
Table cuda_graphs_table(const RankEvents& events);

/// A GPU that several processes of one export launch kernels on: each is a trace rank, and what the GPU does, all
/// together. One row of table `shared_gpus`.
struct SharedGpu {
  std::int32_t device_id = -1;
  Table table;
};

/// By device id; empty where every GPU has one process.
std::vector<SharedGpu> shared_gpus(const Trace& trace);

/// Without rows.
Table shared_gpus_table();

// What ran on the GPU of one trace rank, summed by kernel. Kernels of CUDA graphs traced by node count; graphs
// recorded as one interval do not (table `cuda_graphs`).

/// Tables `kernels` (by demangled name, as `nsys stats` cuda_gpu_kern_sum), `kernels_by_base_name` (:base),
/// `kernels_by_mangled_name` (:mangled; no rows where the export has none) and `kernels_by_launch` (by name, grid and
/// block, cuda_gpu_kern_gb_sum): one row each, most time first (ties by name).
///
/// share_percent is the share of the sum of all kernel durations, not of wall time. Tail score = (p99 - median) x
/// count: the time that the slowest executions cost beyond the usual one. tail: `outliers` where max > 2 x median,
/// `systematic` where p99 > 1.5 x median, too.
std::vector<Table> kernel_tables(const RankEvents& events);

/// Table `kernel_histogram`: durations by demangled name in buckets of a quarter doubling; only buckets that occur.
Table kernel_histogram_table(const RankEvents& events);

/// Tables `kernel_pacing` (start-to-start intervals by base name, for every name that ran twice) and
/// `kernel_progress` (when every k-th execution started, for the base names with most time: bounded).
std::vector<Table> kernel_pacing_tables(const RankEvents& events);

/// Table `gpu_trace`: a row per kernel, copy, set and graph of the device, by start (nsys' cuda_gpu_trace), with the
/// call that launched it. As many rows as the device has activities, so it is made where the user asks for it.
Table gpu_trace_table(const RankEvents& events);

/// Table `cuda_api_gpu`: calls of the host, kernels and memory operations in one list of each trace rank, most time
/// first (nsys' cuda_api_gpu_sum); of the joined tables of all trace ranks.
Table cuda_api_gpu_table(const std::vector<Table>& rank_tables);

// Copies, sets and the memory itself of one device. GB = 1e9 bytes.

/// Tables `memory_time` and `memory_size` (as `nsys stats` cuda_gpu_mem_time_sum and cuda_gpu_mem_size_sum, but sizes
/// in bytes), `memory_transfers` (by operation and kinds of memory, with bandwidth: bytes over the sum of durations)
/// and `copy_engines` (by direction: union of its times, what compute hid of it).
std::vector<Table> memory_operation_tables(const RankEvents& events);

/// Tables `gpu_memory` (bytes in use over at most 256 spans of time) and `gpu_memory_summary`, by kind of memory; no
/// rows unless captured with --cuda-memory-usage=true. Use counts from the start of the trace, not what was there
/// before.
std::vector<Table> gpu_memory_tables(const RankEvents& events);

/// "tensor_active"; empty for counters of links and clocks, which have tables of their own.
std::string_view counter_name(GpuCounter counter);

/// Tables `gpu_counters` and `kernel_counters`; without rows where the trace has no such GPU metrics.
std::vector<Table> gpu_counter_tables(const RankEvents& events);

/// Sets gpu_counters.peers_median_percent in the joined table, where there is one.
void compare_gpu_counters(std::vector<Table>& joined);

// How kernels of one device were launched.

/// Tables
/// - `kernel_launches` (as `nsys stats` cuda_kern_exec_sum) by thread, call and kernel: API time of the call, queue
/// time
///   from the end of the call to the start of the kernel (left out where the kernel started before the call returned;
///   queue_count counts the others), kernel time, and total time from the start of the call to the later of both ends.
///   Kernels of one graph launch each count with that call; kernels whose call is not in the trace are left out;
/// - `launch_latency`: from the start of the launching call to the start of the kernel, in buckets of a quarter
/// doubling
///   (only buckets that occur);
/// - `launch_storm`, one row where there are kernels: launches per second of the window of kernels, median, p90 and p99
///   of their durations, shares shorter than 5, 10 and 20 us. storm is 1 from 50,000 launches per second with a median
///   of at most 10 us, or from 100,000 with at most 20 us (the limits of nsys-llm-explainer).
std::vector<Table> launch_tables(const RankEvents& events);

// What the host's CUDA calls cost. Calls belong to a process: tables of calls stand at the first trace rank of the
// process, so that sums over trace ranks count each call once.

/// Tables `cuda_api` (as `nsys stats` cuda_api_sum; names as it writes them: without the suffix of four digits, with
/// those of other lengths) and `allocations` (of them the calls that allocate or release memory, streams, events and
/// graphs, with their rate per second of the span from the first to the last CUDA call: churn).
std::vector<Table> api_tables(const RankEvents& events);

/// Table `barriers` by kind and name: `sync_api` (calls in which the host waits for the GPU), `blocking_memcpy` (copy
/// calls that are not Async), `launcher_gap` (100 us or more in which no thread of the process is in a launching call:
/// whatever the host does instead, barriers of the other kinds included) and `host_wait` (waiting in the operating
/// system, outermost calls of threads that launch). Streams that wait for events, and queries of events, do not block
/// the host and do not count.
Table barriers_table(const RankEvents& events);

bool is_sync_call(std::string_view api_name);           ///< the host waits for the GPU
bool is_launch_call(std::string_view api_name);         ///< kernels and graphs
bool is_blocking_copy_call(std::string_view api_name);  ///< a copy without Async in its name
bool is_allocation_call(std::string_view api_name);     ///< makes or destroys memory, streams, events or graphs

/// Threads of the process that launch kernels or graphs.
std::set<std::uint32_t> launching_threads(const RankEvents& events);

// Who makes slow CUDA calls, and what libraries of CUDA are asked for. Both stand at the first trace rank of the
// process (api_tables).

/// Table `call_stacks`: the 50 places of the program whose CUDA calls took most time, as far as backtraces were
/// recorded (nsys records those of calls longer than its threshold).
Table call_stacks_table(const RankEvents& events);

/// Table `library_calls`, calls within others included.
Table library_calls_table(const RankEvents& events);

// What else went on in a process: the operating system, the scheduler, the profiler. These tables stand at the first
// trace rank of the process; what was not captured has no rows.

/// Table `os_runtime` (as `nsys stats` osrt_sum): calls into the operating system's libraries, by name, nested calls
/// included; outermost_ns leaves those out, so that it counts no time twice. Only calls longer than nsys' threshold are
/// recorded: sums are lower bounds.
Table os_runtime_table(const RankEvents& events);

/// Table `profiler_overhead` by name: what the profiler took, and what CUDA itself did behind the scenes (profiler 0).
/// union_ns counts time only once where rows of one thread overlap.
Table overhead_table(const RankEvents& events);

/// Table `thread_states`: per thread the time on a CPU and off it by state, switches and moves between CPUs, from its
/// first to its last scheduling event.
Table thread_states_table(const RankEvents& events);

// The six rules of `nsys analyze` with its default limits, joined on process and correlation id (nsys' own join on the
// correlation id alone pairs rows of different processes).

/// Tables `expert_rules` (per rule: cases, their time and bytes) and `expert_rule_cases` (per rule the 50 longest by
/// duration, then start):
///
/// | rule | a case |
/// |---|---|
/// | cuda_memcpy_async | an Async copy call with pageable memory at either end: it blocks like a synchronous one |
/// | cuda_memcpy_sync | a copy call without Async, except up to 64,000 bytes to the device and copies within it |
/// | cuda_memset_sync | a set call without Async on pinned or managed memory |
/// | cuda_api_sync | cudaDeviceSynchronize or cudaStreamSynchronize |
/// | gpu_gaps | 500 ms or more without GPU activity between two activities; profiler overhead counts as activity |
/// | gpu_time_util | a run of 1/30 parts of the device's window in which durations add up to less than half |
///
/// Durations are those of the GPU activity for copies and sets, of the call for synchronisation.
std::vector<Table> expert_rule_tables(const RankEvents& events);

// NVTX ranges of one process, alone and with the GPU work launched inside them. Definitions are those of `nsys stats`
// (nvtx_sum, nvtx_pushpop_sum, nvtx_pushpop_trace, nvtx_gpu_proj_sum, nvtx_gpu_proj_trace, nvtx_kern_sum), with two
// differences: labels that differ only in PyTorch's operator number are one row (range_name), and GPU work is joined
// to its launch within the process. Time is near linear in ranges plus operations.

/// Rows that a table of names keeps for each trace rank; the others are added up in a row named other_ranges.
inline constexpr std::size_t most_names = 2000;
inline constexpr std::string_view other_ranges = "(all other ranges)";
/// Rows that a table of single ranges keeps for each trace rank: the longest.
inline constexpr std::size_t most_traced = 1000;

/// The tables
/// - nvtx_sum: host time of ranges by domain, name and style, most time first. Open ranges end at the last event of the
///   trace. `own_ns` leaves out push/pop ranges nested directly inside. For the first trace rank of a process only.
/// - nvtx_trace: the longest push/pop ranges one by one with nesting level, parent and time of children. Same.
/// - nvtx_gpu_projection: from the first start to the last end of GPU work launched inside a range on its thread, gaps
///   included; ranges that ended on another thread or launched nothing do not count.
/// - nvtx_gpu_projection_trace: the longest of these one by one.
/// - nvtx_kernels: kernels launched inside ranges; a kernel counts for every range around it.
/// - nvtx_coverage: one row: how much kernel time lies inside ranges at all, NCCL's own not counted.
std::vector<Table> nvtx_tables(const RankEvents& events, const DeviceLaunches& launches);

/// The first two, which tell nothing of GPUs.
std::vector<Table> host_range_tables(const RankEvents& events);

// Where a program's phases (steps, forward, backward, optimizer, prefill, decode, the user's own) spend the GPU.

/// Steps that table steps keeps for each trace rank: the first ones.
inline constexpr std::size_t most_steps = 2000;
inline constexpr std::string_view outside_phases = "(outside)";

/// The tables
/// - phases: a row per phase in order of its first range, then one for kernels in none. A kernel belongs to the
///   innermost phase around its launch; steps hold all that is launched in them and overlap the other phases. Launches
///   of threads that never enter a phase (autograd's) belong to what is open at that time on other threads.
/// - steps: one row per step, by start.
/// - serving: time to first token (from the start of a prefill to the end of its GPU work; queueing before it is not in
///   a trace) and time per output token (between the ends of a decode and of the prefill or decode before it).
/// Ranges inside another one of the same phase on the same thread are part of that one.
std::vector<Table> phase_tables(const RankEvents& events, const DeviceLaunches& launches,
                                const std::vector<PhaseRule>& rules);

/// Table `layers`: repeats of a sequence of compute kernels (name and grid) within the steps of a trace rank
/// (window/steps.hpp), found in the step of median length; summed over the steps that run the same sequence.
/// A layer lasts to the first kernel of the next, the last one to the end of its last kernel. No rows without steps,
/// or where nothing repeats. `steps` are those of `events`, `events.arrivals` of them, too.
Table layers_table(const RankEvents& events, const Steps& steps);

// What the job ran on and with, by trace rank, and where its trace ranks differ.

/// The table run_facts: a row for each fact of this trace rank. First what the export's metadata tells of host, capture
/// and GPU (ingest/metadata.hpp), then `framework`: those whose kernels or threads are in the trace, by
/// frameworks.inc.
Table run_facts_table(const RankEvents& events);

/// The facts of all trace ranks, from the joined table.
std::vector<RunFactSummary> summarise_run_facts(const std::vector<Table>& joined);

/// Everything that kept the device of one trace rank busy, and what the threads that launched it did: NVTX ranges,
/// calls of CUDA and of the system. All that overlaps the window. Threads launched work where they did so within
/// shown_by_timeline(window). Times are trace time; trace_rank is not set. No two events of one kind, track and lane
/// overlap.
Timeline timeline_of(const RankEvents& events, const Interval& window);

/// The time in which kernels and calls must be known: the window, and as much before it.
Interval shown_by_timeline(const Interval& window);

/// Its NVLink traffic in percent of the peak where it was sampled (a value where it changes).
void add_link_traffic(const RankEvents& events, Timeline& timeline);

/// The events of a timeline that two pictures need, one of all and one of the moment: of `most` half those nearest to
/// the moment, and the longest of the others. Returns how many are left out.
std::int64_t thin_out(std::vector<TimelineEvent>& events, Nanoseconds at_ns, std::size_t most);

}  // namespace nsys_explain::analysis
