#pragma once

#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/report_detail.hpp"
#include "nsys_explain/model/report_parts.hpp"
#include "nsys_explain/model/shown_table.hpp"
#include "nsys_explain/model/work.hpp"

/// The result of one run as plain data: what report.json, report.md, report.html and the store's summaries are made of.
/// Field names follow docs/outputs.md; everything here is independent of the number of tool ranks except `RunFacts`.
namespace nsys_explain {

enum class ClockMethod : std::uint8_t { collectives, host_clock, utc };

/// Correction on top of offset and drift at one time of the session's clock (u - offset_ns).
struct ClockBend {
  Nanoseconds at_ns = 0;
  Nanoseconds correction_ns = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(at_ns, correction_ns);
  }
};

/// Job time = u - offset_ns - drift_ppb * 1e-9 * (u - offset_ns - pivot_ns), with u = UTC by the report - epoch; where
/// there are bends, minus their correction, too: linear between them, constant beyond the first and the last.
struct SessionClock {
  std::string path;
  std::string host;
  ClockMethod method = ClockMethod::utc;
  Nanoseconds offset_ns = 0;
  double drift_ppb = 0;
  std::optional<Nanoseconds>
      uncertainty_ns;          ///< one standard uncertainty; empty: nothing relates this session to others
  std::int32_t component = 0;  ///< only sessions of one component can be compared
  std::optional<double> drift_uncertainty_ppb;  ///< one standard uncertainty; empty where no drift was fitted
  std::vector<ClockBend> bends;                 ///< ascending; empty unless a long run shows that the drift changes

  template <class Archive>
  void serialize(Archive& archive) {
    archive(path, host, method, offset_ns, drift_ppb, uncertainty_ns, component, drift_uncertainty_ppb, bends);
  }
};

/// Held-out residuals of magnitude [from_ns, to_ns).
struct ResidualBin {
  Nanoseconds from_ns = 0, to_ns = 0;
  std::int64_t samples = 0;
};

/// Held-out residuals of the instances of one operation, of similar size and scope.
struct ClassResidual {
  Operation operation = Operation::unknown;
  bool one_host = false;         ///< all members on one host
  std::int64_t from_bytes = -1;  ///< message sizes [from_bytes, 2 * from_bytes); -1: not known
  bool decides = false;          ///< counts in the residual of the whole run
  std::int64_t samples = 0;
  Nanoseconds p50_ns = 0, p90_ns = 0, max_ns = 0;
};

/// How well matched ends agree after clock correction, on instances held out of the fit. Empty: nothing to hold out.
struct ClockResidual {
  std::optional<Nanoseconds> held_out_p50_ns, held_out_p90_ns, held_out_max_ns;
  std::int64_t samples = 0;
  std::int64_t unexplained = 0;         ///< of those samples: off by more than such an operation takes
  std::vector<ResidualBin> histogram;   ///< of those samples; consecutive powers of two, the ends not empty
  std::vector<ClassResidual> by_class;  ///< all operations, also those that do not count above
};

struct ClockReport {
  std::vector<SessionClock> sessions;
  Nanoseconds pivot_ns = 0;
  ClockResidual residual;
  std::int64_t violations = 0;  ///< instances in which a member left before the last one entered
  /// An arrival skew beyond this is resolved in every collective of the run; empty where no two arrivals are
  /// comparable.
  std::optional<Nanoseconds> smallest_skew_ns;
};

struct CommunicatorSummary {
  std::string name;        ///< NCCL's hash in hexadecimal, or "inferred-N"
  std::string given_name;  ///< what the program calls it; several may share one; empty: not known
  std::uint64_t key = 0;
  std::vector<std::int32_t> trace_ranks;
  std::int32_t size = 0;
  std::int64_t instances = 0, complete = 0, partial = 0, unmatched_arrivals = 0;
  Evidence evidence = Evidence::kernel_name;
};

/// Sums over the complete instances of one operation; bandwidths are total bytes over total transfer time, GB = 1e9.
struct OperationSummary {
  Operation operation = Operation::unknown;
  std::int64_t instances = 0;
  std::optional<std::int64_t> bytes;
  Nanoseconds wait_ns = 0;
  Nanoseconds transfer_ns = 0;
  std::optional<double> algorithm_bandwidth_gbs, bus_bandwidth_gbs;
};

/// Where the time of one trace rank went; the parts add up to window_ns exactly (docs/method.md, Budgets).
struct Budget {
  Nanoseconds window_start_ns = 0;  ///< job time
  Nanoseconds window_ns = 0;
  Nanoseconds compute_ns = 0;
  Nanoseconds communication_ns = 0;
  Nanoseconds overlapped_ns = 0;
  Nanoseconds exposed_communication_ns = 0;
  Nanoseconds copy_ns = 0;
  Nanoseconds opaque_graph_ns = 0;
  Nanoseconds idle_ns = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(window_start_ns, window_ns, compute_ns, communication_ns, overlapped_ns, exposed_communication_ns, copy_ns,
            opaque_graph_ns, idle_ns);
  }
};

struct RankSummary {
  std::int32_t trace_rank = -1;
  Budget budget;
  std::int64_t arrivals = 0;
  std::int64_t last_arrivals = 0;  ///< resolved instances in which this rank was last
  Nanoseconds wait_ns = 0;
  Nanoseconds caused_wait_ns = 0;
  Nanoseconds own_lateness_ns = 0;
  Nanoseconds inherited_lateness_ns = 0;
  /// Total bytes over total transfer time of its complete collectives of known size; empty where there are none.
  std::optional<double> bus_bandwidth_gbs;
};

enum class Pattern : std::uint8_t { persistent, transient, periodic, rotating, unknown };

enum class Cause : std::uint8_t {
  slow_kernel,  ///< most kernels take longer than equal ones on peers
  extra_work,   ///< more kernels
  uneven_work,  ///< the same kernels, some of them larger or longer: experts, sequence lengths, padding
  launch_starved,
  sync_stall,
  blocking_copy,
  allocation,
  slow_link,
  profiler_overhead,
  unknown
};

/// Where lateness sits: one GPU, or everything that shares a node, a rail (the same GPU number of all nodes) or a rack,
/// or a place in the parallel layout of the job (analysis/waits/parallel_layout.hpp).
enum class Level : std::uint8_t { gpu, node, rail, rack, pipeline_stage, expert_index, tensor_index, data_index };

struct PlaceName {
  Level level = Level::gpu;
  std::string name;  ///< of the node, rail or rack, number of the stage or index; empty for a GPU
};

/// A trace rank, or a place with all its trace ranks, with statistically and physically significant lateness of its
/// own.
struct Straggler {
  std::int32_t trace_rank = -1;  ///< of a place: the one whose delays cost most
  Level level = Level::gpu;
  std::string place;                      ///< PlaceName::name
  std::vector<PlaceName> also;            ///< other places that consist of the same trace ranks
  std::vector<std::int32_t> trace_ranks;  ///< all that the verdict covers, ascending
  Pattern pattern = Pattern::persistent;
  Cause cause = Cause::unknown;
  WorkPart part =
      WorkPart::pending;  ///< what the cause rests on: the part of its work that differs most from its peers'
  /// Where its host was meanwhile: an NVTX range or call into MPI, a system call, or a function by CPU samples; of more
  /// work on the GPU the NVTX range that launched it. Empty: not known.
  std::string host_was_in;
  Nanoseconds own_lateness_ns = 0;
  Nanoseconds caused_wait_ns = 0;
  Nanoseconds delay_cost_ns = 0;  ///< caused wait, with that of partners by a slow link that is its own
  /// Elapsed time that mending it saves, alone or, where that is nothing yet, once those in `behind` are mended; where
  /// no replay tells, delay cost / window time of all trace ranks.
  double cost_share = 0;
  double gpu_hours_per_day = 0;      ///< what that share is of a day of the job's GPUs
  std::vector<std::int32_t> behind;  ///< who is to be mended before it saves anything, ascending; mostly nobody
  double last_share = 0;             ///< of the resolved instances it took part in
  double p_value = 1;
  std::optional<std::int64_t> first_step, last_step;  ///< the first and last step it delayed; empty: no steps known
  std::optional<std::int64_t> period_steps;           ///< periodic: steps from one delay to the next
  Nanoseconds first_ns = 0, last_ns = 0;  ///< job time of the first and last instance it delayed, within those steps
  std::vector<std::string> evidence;
};

/// Why one who takes longer than its peers is not called a straggler.
enum class Doubt : std::uint8_t {
  too_few_steps,  ///< it costs the others much, but chance does as much in so few steps
  unseen,         ///< beyond chance, but no clock relates it to those who seem to wait for it
};

/// One who would be a straggler if there were more steps, or if clocks told who waits.
struct SuspectedStraggler {
  Straggler late;  ///< costs are those of today
  Doubt doubt = Doubt::too_few_steps;
  double verdict_p_value = 1;         ///< the largest that makes a verdict
  std::int64_t steps = 0;             ///< looked at
  std::int64_t steps_needed = 0;      ///< too_few_steps: as many make a verdict if all are like these
  double unseen_cost_share = 0;       ///< unseen: as Straggler::cost_share, an estimate that takes no common clock
  Nanoseconds estimated_cost_ns = 0;  ///< unseen: the GPU time behind that share
};

/// Trace ranks that take longer than their peers beyond chance, by enough to matter, though the replay finds that
/// mending them saves less than a straggler's cost.
struct LateWithoutCost {
  std::vector<std::int32_t> trace_ranks;  ///< ascending
  double longer_share = 0;                ///< what the latest of them takes longer, of the elapsed time
  double p_value = 1;
};

/// Stragglers, then suspects: all whose pattern and cause are of interest. The pointers hold as long as the lists do.
std::vector<Straggler*> everybody_late(std::vector<Straggler>& stragglers, std::vector<SuspectedStraggler>& suspects);

/// One collective in which much of the job's waiting lies, and why its last arriver was late.
struct LongWait {
  std::int64_t instance = 0;     ///< row of collective_instances
  std::int32_t trace_rank = -1;  ///< the last arriver
  std::int32_t peer_trace_rank = -1;
  Nanoseconds caused_wait_ns = 0;
  Nanoseconds behind_ns = 0;  ///< its work before the collective less the peer's
  Cause cause = Cause::unknown;
  WorkPart part = WorkPart::pending;
  Nanoseconds more_ns = 0;  ///< of that part, beyond the peer's
  std::string host_was_in;  ///< Straggler::host_was_in
  std::string detail;       ///< the largest difference by name; empty where none was looked for
};

/// Where the waiting of the whole job comes from: wait = attributed + unattributed, to the nanosecond.
struct DelaySummary {
  Nanoseconds wait_ns = 0;
  Nanoseconds attributed_ns = 0;  ///< RankSummary::caused_wait_ns of all
  Nanoseconds unattributed_ns =
      0;                         ///< structure (a pipeline's bubble), slow transfers, or below the clock's resolution
  double cost_share = 0;         ///< attributed / window time of all trace ranks: what is waited, no saving
  double gpu_hours_per_day = 0;  ///< what that share is of a day of the job's GPUs
  bool rotating = false;         ///< the delays cost much, but now one trace rank has them, now another
  Cause rotating_cause = Cause::unknown;  ///< uneven_work: of larger kernels; slow_kernel: the same kernels take longer
  double rotating_share = 0;              ///< of these delays, that this cause holds
  std::int64_t steps = 0;                 ///< iterations of the job; 0: none found
  std::int64_t first_step = 0;            ///< number of the first
  std::string step_source;                ///< "nvtx", "periodicity" or "none"
};

/// The job once more with something as it usually is (analysis/replay).
struct WhatIf {
  /// "trace_rank", "place", "link", "all", "stage_balanced", "work_balanced", "no_launch_gaps",
  /// "communication_hidden" or "best_group"
  std::string subject;
  std::vector<std::int32_t> trace_ranks;        ///< whose work or links are as usual, ascending; empty: of all
  std::vector<std::int32_t> after;              ///< whose work is as usual before, already; mostly of nobody
  std::string finding;                          ///< id of the finding about them; empty: none
  double saved_share = 0;                       ///< of the elapsed time of the analysed steps, from 0 to 1
  std::optional<double> low_share, high_share;  ///< 95% interval; empty: nothing tells
  std::int64_t pauses = 0, pauses_ns = 0;       ///< how many, and the time that these lost; 0: it happened in more
  Nanoseconds step_ns_before = 0, step_ns_after = 0;
};

/// From a step on all steps take longer, or less.
struct StepTimeChange {
  std::int64_t step = 0;                    ///< the first that does, by the number in table steps
  Nanoseconds before_ns = 0, after_ns = 0;  ///< median, up to the change before and the one after
  double p_value = 1;                       ///< that chance does so
};

/// Elapsed time of steps, from the latest exit of one to that of the next.
struct StepTime {
  std::string source;  ///< "nvtx", "order" or "none"
  std::int64_t steps = 0;
  Nanoseconds median_ns = 0, p95_ns = 0;
  Nanoseconds spread_ns = 0;  ///< between the quartiles, from begin to begin
  std::vector<StepTimeChange> change_points;
  /// Of the length of a step, predicted from another step's graph and its own work: median and 90% of
  /// |predicted / measured - 1|; empty: nothing was replayed, or no two steps are alike.
  std::optional<double> replay_error, replay_error_p90;
  /// Of what waits for more than its launch and the work before it: the share whose waits times tell, not records;
  /// empty: nothing was replayed.
  std::optional<double> inferred_edges;
};

enum class FindingSeverity : std::uint8_t { high, medium, low, info };

struct Finding {
  std::string id;  ///< stable, kebab-case: scripts may look for it
  FindingSeverity severity = FindingSeverity::info;
  std::string title;
  std::vector<std::string> evidence;
  std::string recommendation;
  /// GPU time, summed over trace ranks, that is lost or waited because of it. Empty where the traces do not tell: time
  /// of the host, what only limits the analysis.
  std::optional<Nanoseconds> cost_ns{};
  std::optional<WhatIf> mended{};           ///< the job without it; empty: not known
  std::vector<std::int32_t> trace_ranks{};  ///< whom it is about, ascending; empty: the whole job
  std::string place{};                      ///< where they are: "GPU 1 on node001", "node node001"; empty: everywhere
};

/// What the run comes to, in one line: the same in every report and on the terminal.
struct JobVerdict {
  std::string text;
  std::string finding;                               ///< id of the finding that it tells; empty: of none
  FindingSeverity severity = FindingSeverity::info;  ///< of the most severe finding
  bool complete = true;  ///< no trace rank is missing, no input failed, and the run was not cut off
  /// In how much of the analysed time the lateness of every trace rank could have been seen; empty: of one alone.
  std::optional<double> judged_share{};
  std::string next;                ///< what to do about it
  std::optional<WhatIf> mended{};  ///< of the finding
};

/// NVLink counters against collectives (table nvlink).
struct NvlinkReport {
  bool available = false;
  std::string message;
};

/// One fact of the profiled run (table run_facts) over its trace ranks.
struct RunFactSummary {
  struct Value {
    std::string value;
    std::vector<std::int32_t> trace_ranks;  ///< ascending
  };
  std::string name;
  std::vector<Value> values;  ///< that of most trace ranks first, then of the lowest; several: the trace ranks differ
};

/// Facts of this run of the tool; the only part of a report that may differ between two runs over the same traces.
struct RunFacts {
  std::string date_utc;
  std::string tool_version;
  std::int32_t tool_ranks = 1;
  std::vector<std::string> hosts;
  std::int32_t threads = 1;  ///< of each tool rank
  struct Phase {
    std::string name;
    double seconds = 0;                  ///< of the slowest tool rank
    std::int64_t rows = 0, bytes = 0;    ///< handled by all tool ranks; 0: the phase handles none to speak of
    std::int64_t peak_memory_bytes = 0;  ///< of the tool rank that held most
  };
  std::vector<Phase> phases;
  /// What was done to stay within --memory-limit.
  struct Memory {
    std::int64_t limit_bytes = 0;      ///< of each tool rank
    std::int64_t traces_in_files = 0;  ///< read with their events in files instead of memory, by all tool ranks
    std::int64_t file_bytes = 0;       ///< of the tool rank that had most in files at a time
  };
  std::optional<Memory> memory;  ///< where there was a limit
};

struct JobReport {
  Nanoseconds epoch_utc_ns = 0;
  std::string title, window;        ///< what the user calls the run; options that chose a part of it; or empty
  std::string left_out;             ///< what of the recording is not analysed, as a sentence; empty: nothing
  std::vector<InputReport> inputs;  ///< sorted by path
  std::vector<Session> sessions;    ///< sorted by path
  std::vector<TraceRankIdentity> trace_ranks;  ///< sorted by trace_rank
  /// Processes without GPU work: no trace ranks, but rows of tables; sorted by their number, which no trace rank has.
  std::vector<TraceRankIdentity> host_processes;
  std::vector<HelperProcess> helpers;     ///< processes beside trace ranks that are none, by key
  std::vector<OtherJob> other_jobs;       ///< those of the inputs that are not analysed, the largest first
  std::int32_t world_size = 0;            ///< ranks of the job as its traces tell; 0: they do not
  std::int64_t untraced_processes = 0;    ///< with calls into NCCL, and without any work on a GPU
  std::vector<RunFactSummary> run_facts;  ///< in the order of the table
  ClockReport clock;
  std::vector<CommunicatorSummary> communicators;
  std::int64_t instances = 0, complete = 0, partial = 0, unmatched_arrivals = 0;
  std::int64_t withheld_arrivals = 0;  ///< without payload: of which nothing tells the communicator
  std::int64_t unjudged =
      0;  ///< of the instances: those with incomparable clocks or impossible times; nothing rests on them
  std::vector<OperationSummary> by_operation;
  std::vector<RankSummary> ranks;  ///< same order as trace_ranks
  std::vector<Straggler> stragglers;
  std::vector<SuspectedStraggler> suspects;        ///< beyond chance first; costliest first
  std::vector<LateWithoutCost> late_without_cost;  ///< the longest first
  std::vector<LongWait>
      long_waits;  ///< longest first; empty where stragglers, or many short waits, explain the waiting
  DelaySummary delay;
  StepTime step_time;
  std::vector<WhatIf> what_if;
  CriticalPath critical_path;
  std::optional<Slowdown> slowdown;  ///< on rank 0 only; empty where the job was not replayed
  std::vector<ExposedTime> exposed;  ///< by trace rank, then operation; on rank 0 only
  std::string category_map;          ///< by which kernels are told in table categories
  std::vector<ShownTable> shown;     ///< which of the tables are shown how
  std::vector<SlowLink> slow_links;  ///< most lost time first
  NvlinkReport nvlink;
  std::vector<Finding> findings;
  JobVerdict verdict;
  std::vector<Warning> warnings;
  std::vector<Table> tables;  ///< small tables that go to the store and CSV besides the streamed ones
  ReportDetail detail;
  RunFacts run;
};

/// Number of the first instance of each communicator; instances count through all of them.
std::vector<std::int64_t> first_instances(const JobReport& report);

}  // namespace nsys_explain
