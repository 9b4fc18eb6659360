#pragma once

#include "model/schema/declaration.hpp"

/// The job as a whole: its collectives, steps, trace ranks and what was found.
namespace nsys_explain::schema {

inline constexpr struct CollectiveInstances : Declaration {
  Integer instance{*this, "instance", "", "number of the instance in this run"};
  Text communicator{*this, "communicator", "", "NCCL's communicator hash, or inferred-N"};
  Integer sequence{*this, "sequence", "", "number of the instance within its communicator, in job-time order"};
  Text operation{*this, "operation", "", "what the members do"};
  Integer bytes{*this, "bytes", "bytes", "message size by the convention of nccl-tests; -1: not known"};
  Integer members{*this, "members", "", "size of the communicator"};
  Integer arrivals{*this, "arrivals", "", "members whose part was found"};
  Integer first_enter_ns{*this, "first_enter_ns", "ns", "job time of the earliest enter"};
  Integer last_enter_ns{*this, "last_enter_ns", "ns", "job time of the latest enter"};
  Integer arrival_skew_ns{*this, "arrival_skew_ns", "ns", "latest minus earliest enter"};
  Integer skew_uncertainty_ns{*this, "skew_uncertainty_ns", "ns",
                              "one standard uncertainty from the clock; -1: not known"};
  Integer last_trace_rank{*this, "last_trace_rank", "", "trace rank with the latest enter"};
  Integer resolved{*this, "resolved", "",
                   "1: the last arriver is later than the second-last beyond three times the uncertainty"};
  Integer transfer_ns{*this, "transfer_ns", "ns",
                      "median over arrivals of the time from the latest enter to the own exit"};
  Integer feasible{*this, "feasible", "",
                   "0: a member left before the last one entered, so the match or the clock is wrong"};
  Integer caused_wait_ns{*this, "caused_wait_ns", "ns",
                         "waiting that would vanish without the last arriver's own lateness"};
  Integer end_residual_ns{*this, "end_residual_ns", "ns",
                          "latest minus earliest exit on the job clock; -1: clocks not related"};
} collective_instances{{"collective_instances",
                        "One row per collective operation matched across its members, by communicator, then sequence"}};

inline constexpr struct CollectiveArrivals : Declaration {
  Integer instance{*this, "instance", "", "row's instance in collective_instances"};
  Integer trace_rank{*this, "trace_rank", "", "rank of the profiled job"};
  Integer enter_ns{*this, "enter_ns", "ns", "job time at which this member entered"};
  Integer exit_ns{*this, "exit_ns", "ns", "job time at which this member left"};
  Integer wait_ns{*this, "wait_ns", "ns", "waiting for the latest member"};
  Integer transfer_ns{*this, "transfer_ns", "ns", "from the latest enter to the own exit, not below 0"};
  Integer own_lateness_ns{*this, "own_lateness_ns", "ns", "lateness by own work since the previous collective"};
  Integer inherited_lateness_ns{*this, "inherited_lateness_ns", "ns", "lateness carried over from earlier waiting"};
  Text timing_source{*this, "timing_source", "",
                     "kernel, projection (copies launched in the call), graph_node or host_call (MPI)"};
} collective_arrivals{{"collective_arrivals", "One row per member of an instance, by instance, then trace rank"}};

inline constexpr struct Steps : Declaration {
  Integer step{*this, "step", "", "by the program's own count where its NVTX ranges have one, else from 0"};
  Integer trace_rank{*this, "trace_rank", "", "rank of the profiled job"};
  Integer start_ns{*this, "start_ns", "ns", "job time of the step's first kernel"};
  Integer duration_ns{*this, "duration_ns", "ns", "to the start of the next step"};
  Integer own_lateness_ns{*this, "own_lateness_ns", "ns", "lateness by own work, over the step's collectives"};
  Integer wait_ns{*this, "wait_ns", "ns", "waiting for other members"};
  Integer caused_wait_ns{*this, "caused_wait_ns", "ns", "waiting that would vanish without its own lateness"};
  Integer apart{
      *this, "apart", "",
      "1: all trace ranks do more in it than a step, and take more than twice as long, so it is no part of the mean step and of savings; else 0"};
} steps{{"steps", "One row per step of the job and trace rank, by step, then trace rank"}};

inline constexpr struct Slowdown : Declaration {
  Text kind{*this, "kind", "", "all (S), launch (without launch gaps), operation (S_t) or trace_rank (S_w)"};
  Text name{*this, "name", "", "compute, transfer, or the trace rank's number"};
  Real slowdown{*this, "slowdown", "", "elapsed time over that with this as is usual"};
} slowdown{
    {"slowdown",
     "How much longer the job takes than if something were as is usual, by replay (after Lin et al. 2025): mending it saves 1 - 1 / slowdown"}};

inline constexpr struct CriticalPath : Declaration {
  Integer step{*this, "step", "", "as in steps; -1: behind the last, or no steps are known"};
  Integer trace_rank{*this, "trace_rank", "", "where it was done"};
  Text kind{
      *this, "kind", "",
      "compute, copy, transfer (of a collective once its last member had entered), launch (to the start on the GPU, and gaps between kernels), host (until it launched) or unknown"};
  Integer duration_ns{*this, "duration_ns", "ns", "on the path; the rows add up to the elapsed time"};
} critical_path{
    {"critical_path",
     "What the end of the run waited for, from the last activity back to the first, by step, trace rank and kind"}};

inline constexpr struct ExposedCommunication : Declaration {
  Integer trace_rank{*this, "trace_rank", "", "rank of the profiled job"};
  Text operation{*this, "operation", "", "of the collective; unknown: communication that is in none"};
  Text collective{
      *this, "collective", "",
      "arrival_skew (before its last member had entered), transfer, unmatched, or inconclusive (it took less than three standard uncertainties of the clocks)"};
  Text compute{
      *this, "compute", "",
      "why none ran: blocking (it, or the host, waited for communication), launch_paced (the host had not launched it) or not_told"};
  Integer duration_ns{*this, "duration_ns", "ns",
                      "the rows of a trace rank add up to its exposed_communication_ns (table ranks)"};
} exposed_communication{{"exposed_communication",
                         "Communication without compute, by what the collective did and why no compute ran beside it"}};

inline constexpr struct StepBudget : Declaration {
  Integer trace_rank{*this, "trace_rank", "", "rank of the profiled job"};
  Integer steps{*this, "steps", "", "of the job; a decode step makes a token for each sequence; 0: not known"};
  Integer window_ns{*this, "window_ns", "ns",
                    "from the first start to the last end of GPU activity: the sum of what follows"};
  Integer compute_ns{*this, "compute_ns", "ns", "compute kernels"};
  Integer transfer_ns{*this, "transfer_ns", "ns",
                      "collectives that compute waited for, once the last member had entered"};
  Integer arrival_skew_ns{*this, "arrival_skew_ns", "ns", "likewise, before that"};
  Integer inconclusive_ns{*this, "inconclusive_ns", "ns",
                          "likewise, where nothing tells which: not matched, or too short for the clocks"};
  Integer launch_paced_ns{
      *this, "launch_paced_ns", "ns",
      "no compute ran, because the host had not launched it: beside a collective or with an idle GPU"};
  Integer copy_ns{*this, "copy_ns", "ns", "copies and sets beside nothing else"};
  Integer opaque_graph_ns{*this, "opaque_graph_ns", "ns", "CUDA graphs recorded as one interval"};
  Integer idle_ns{*this, "idle_ns", "ns", "no GPU activity for other reasons"};
} step_budget{
    {"step_budget", "Where the time of each trace rank went, every nanosecond once; divided by steps, of a step"}};

inline constexpr struct RunParts : Declaration {
  Text part{
      *this, "part", "",
      "start_up: before the first step; slow_first_steps: they compile, allocate, or wait for ranks that began later; unshared_steps: other processes did not record them; steps; not_recorded: a hole between two captures, within the steps; after: what follows the last step that is analysed; activity: what is analysed where no steps are known"};
  Time begin_ns{*this, "begin_ns", "ns", "job time at which the host began it"};
  Integer duration_ns{*this, "duration_ns", "ns", "of it, as far as there is GPU activity before and after"};
  Integer steps{*this, "steps", "", "that began in it"};
  Integer gpu_busy_ns{*this, "gpu_busy_ns", "ns", "any GPU activity"};
  Integer analysed{*this, "analysed", "", "1: all figures of the report are about this part; 0: they are not"};
} run_parts{{"run_parts",
             "What each trace rank recorded, from its first to its last GPU activity, and which part is analysed"}};

inline constexpr struct FirstCollectives : Declaration {
  Text communicator{*this, "communicator"};
  Integer members{*this, "members"};
  Integer transfer_ns{*this, "transfer_ns", "ns", "of its first collective that is analysed, from the last enter on"};
  Integer longest_later_ns{*this, "longest_later_ns", "ns", "of its later ones"};
  Integer later{*this, "later", "", "how many these are"};
} first_collectives{{"first_collectives",
                     "The first collective of each communicator against its later ones: connections are made in it"}};

inline constexpr struct CollectivesInStep : Declaration {
  Text operation{*this, "operation", "", "what the members do"};
  Integer place{*this, "place", "", "the collective's number among those of its operation in a step, from 0"};
  Integer in_step{*this, "in_step", "",
                  "how many of them a trace rank has in a step; steps with another number are left out"};
  Integer arrivals{*this, "arrivals", "", "over all steps and trace ranks"};
  Integer inconclusive{*this, "inconclusive", "",
                       "of these, not matched or too short for the clocks: in duration_ns alone"};
  Integer duration_ns{*this, "duration_ns", "ns", "from enter to exit, summed over arrivals"};
  Integer skew_ns{*this, "skew_ns", "ns", "of this, before the last member had entered"};
  Integer transfer_ns{*this, "transfer_ns", "ns", "of this, after that"};
  Integer most_skew_ns{*this, "most_skew_ns", "ns", "of one arrival"};
} collectives_in_step{
    {"collectives_in_step",
     "The n-th collective of a step: one row per operation and place, over all steps and trace ranks"}};

inline constexpr struct Ranks : Declaration {
  Integer trace_rank{*this, "trace_rank", "", "number in the profiled job"};
  Integer window_start_ns{*this, "window_start_ns", "ns", "job time of the first GPU activity"};
  Integer window_ns{*this, "window_ns", "ns", "from the first start to the last end of GPU activity"};
  Integer compute_ns{*this, "compute_ns", "ns", "union of compute kernels"};
  Integer communication_ns{*this, "communication_ns", "ns", "union of communication kernels"};
  Integer overlapped_ns{*this, "overlapped_ns", "ns", "communication while compute runs"};
  Integer exposed_communication_ns{*this, "exposed_communication_ns", "ns", "communication while no compute runs"};
  Integer copy_ns{*this, "copy_ns", "ns", "copies and sets under neither"};
  Integer opaque_graph_ns{*this, "opaque_graph_ns", "ns", "CUDA graphs recorded as one interval"};
  Integer idle_ns{*this, "idle_ns", "ns", "no GPU activity"};
  Integer arrivals{*this, "arrivals", "", "matched collectives it took part in"};
  Integer last_arrivals{*this, "last_arrivals", "", "resolved instances in which it came last"};
  Integer wait_ns{*this, "wait_ns", "ns", "waiting in collectives for others"};
  Integer caused_wait_ns{*this, "caused_wait_ns", "ns", "waiting of others that its own lateness caused"};
  Integer own_lateness_ns{*this, "own_lateness_ns", "ns", "lateness by own work"};
  Integer inherited_lateness_ns{*this, "inherited_lateness_ns", "ns", "lateness carried over from waiting"};
  Real bus_bandwidth_gbs{*this, "bus_bandwidth_gbs", "GB/s",
                         "of its complete collectives of known size: total bytes over total transfer time"};
} ranks{{"ranks", "Where the time of each trace rank went, and its part in waiting"}};

inline constexpr struct RankPlaces : Declaration {
  Integer trace_rank{*this, "trace_rank", "", "rank of the profiled job"};
  Text level{*this, "level", "", "as in stragglers"};
  Text place{*this, "place", "", "trace ranks of one level and place belong together"};
} rank_places{
    {"rank_places",
     "Where each trace rank sits: node, rail and rack, and its place in the parallel layout as communicators show it"}};

inline constexpr struct Findings : Declaration {
  Text id{*this, "id", "", "stable name of the kind of finding"};
  Text severity{*this, "severity", "", "high, medium, low or info"};
  Text title{*this, "title", "", "what was found"};
  Text evidence{*this, "evidence", "", "what it rests on; parts are separated by '; '"};
  Text recommendation{*this, "recommendation", "", "what to do next"};
  Integer cost_ns{
      *this, "cost_ns", "ns",
      "GPU time, summed over trace ranks, that is lost or waited because of it; -1: the traces do not tell"};
} findings{{"findings", "What is wrong: what is missing, what saves most when mended, then by severity and cost"}};

/// Single collectives with the work before them; columns with the parts of that work follow (pipeline/investigate).
struct Cases : Declaration {
  Integer trace_rank{*this, "trace_rank", "", "the last arriver"};
  Integer instance{*this, "instance", "", "row of collective_instances; -1: what it came late to is not matched"};
  Integer last_enter_ns{*this, "last_enter_ns", "ns", "job time at which it entered"};
  Integer caused_wait_ns{
      *this, "caused_wait_ns", "ns",
      "waiting that would vanish without its own lateness; where the case is the longest work rather than the longest wait, own_lateness_ns"};
  Integer own_lateness_ns{*this, "own_lateness_ns", "ns", "lateness by own work"};
  Integer peer_trace_rank{*this, "peer_trace_rank", "", "the peer: median work of those that did the same"};
  Text cause{*this, "cause", "", "what this case speaks for; none: behind since an earlier collective"};
  Text part{*this, "part", "", "what differs most for that cause"};
  Integer same_kernels{*this, "same_kernels", "", "1: both launched the same kernels with the same grids"};
};
inline constexpr Cases straggler_cases{
    {"straggler_cases",
     "Collectives that stragglers delayed, one per span of time, with the work of the straggler and of a median peer before them"}};
inline constexpr Cases long_waits{
    {"long_waits",
     "Single collectives that hold much of the waiting, longest first, with the work of the last arriver and of a median peer before them"}};

inline constexpr struct StragglerDifferences : Declaration {
  Integer trace_rank{*this, "trace_rank", "", "the straggler, or last arriver of long_waits"};
  Text kind{*this, "kind", "",
            "kernel, copy, call, range (NVTX), host_stall or function (CPU samples, each for its period)"};
  Text name{*this, "name", "", "kernel, kind of copy, CUDA call, NVTX range, system call"};
  Text shape{*this, "shape", "", "grid and block of a kernel, bytes of a copy"};
  Text range{*this, "range", "", "NVTX range that launched a kernel, the innermost"};
  Integer count{*this, "count", "", "on the straggler"};
  Integer peer_count{*this, "peer_count", "", "on the peer"};
  Integer total_ns{*this, "total_ns", "ns", "on the straggler"};
  Integer peer_total_ns{*this, "peer_total_ns", "ns", "on the peer"};
  Integer difference_ns{*this, "difference_ns", "ns", "straggler less peer"};
} straggler_differences{
    {"straggler_differences",
     "What stragglers did differently from a peer before the worst of straggler_cases, and last arrivers before long_waits, largest difference first"}};

inline constexpr struct LevelSums : Declaration {
  Text level{*this, "level", "", "kind of place"};
  Text place{*this, "place", "", "its name"};
  Integer first_trace_rank{*this, "first_trace_rank", "", "the lowest in it"};
  Integer trace_ranks{*this, "trace_ranks", "", "how many it holds"};
  Integer window_ns{*this, "window_ns", "ns", "from first to last GPU activity, summed"};
  Integer compute_ns{*this, "compute_ns", "ns", "union of compute kernels"};
  Integer exposed_communication_ns{*this, "exposed_communication_ns", "ns", "communication while no compute runs"};
  Integer idle_ns{*this, "idle_ns", "ns", "no GPU activity"};
  Integer wait_ns{*this, "wait_ns", "ns", "waiting in collectives for others"};
  Integer own_lateness_ns{*this, "own_lateness_ns", "ns", "lateness by own work"};
  Integer inherited_lateness_ns{*this, "inherited_lateness_ns", "ns", "lateness carried over from waiting"};
  Integer caused_wait_ns{*this, "caused_wait_ns", "ns", "waiting of others that own lateness caused"};
} level_sums{{"level_sums", "Sums over the trace ranks of each node, rail, rack and whatever else is told apart"}};

inline constexpr struct WaitMatrix : Declaration {
  Integer late_trace_rank{
      *this, "late_trace_rank", "",
      "whose own lateness it was; -1: nobody's that tells: inherited lateness, or below the clocks' resolution"};
  Integer waiting_trace_rank{
      *this, "waiting_trace_rank", "",
      "who waited; in a job of more than 128 trace ranks the lowest of a node, for all of the node"};
  Integer cost_ns{*this, "cost_ns", "ns", "GPU time waited"};
} wait_matrix{
    {"wait_matrix",
     "Who waited for whom: the waiting of a row is what the own lateness of one trace rank, as the last arriver, cost another; for each that waits the rows add up to its wait_ns"}};

}  // namespace nsys_explain::schema
