#pragma once

#include "model/schema/declaration.hpp"

/// What ran on the GPU of each trace rank, and how fast.
namespace nsys_explain::schema {

struct LaunchShape {
  constexpr explicit LaunchShape(Declaration& table)
      : sizes{{{table, "grid_x", "", "thread blocks"},
               {table, "grid_y"},
               {table, "grid_z"},
               {table, "block_x", "", "threads"},
               {table, "block_y"},
               {table, "block_z"}}} {}
  std::array<Integer, 6> sizes;
};

struct AnyShape {
  constexpr explicit AnyShape(Declaration& /*table*/) {}
};

template <class Shape>
struct Kernels : Declaration {
  Text name{*this, "name", "", "kernel"};
  Shape shape{*this};
  Integer communication{*this, "communication", "", "1: it moves data between ranks"};
  Real share_percent{*this, "share_percent", "%", "of the sum of all kernel durations"};
  Statistics durations{*this};
  Text tail{*this, "tail", "", "none, outliers (max > 2 medians) or systematic (p99 > 1.5)"};
  Real tail_score_ns{*this, "tail_score_ns", "ns", "(p99 - median) x count"};
};
inline constexpr Kernels<AnyShape> kernels{
    {"kernels", "Kernels by name with template and argument lists, most time first"}};
inline constexpr Kernels<AnyShape> kernels_by_base_name{
    {"kernels_by_base_name", "Kernels by base name, most time first"}};
inline constexpr Kernels<AnyShape> kernels_by_mangled_name{
    {"kernels_by_mangled_name", "Kernels by mangled name, most time first"}};
inline constexpr Kernels<LaunchShape> kernels_by_launch{
    {"kernels_by_launch", "Kernels by name, grid and block, most time first"}};

inline constexpr struct CommunicationOverlap : Declaration {
  Text name{*this, "name", "", "base name of the kernel"};
  Integer count{*this, "count", "", "executions"};
  Integer total_ns{*this, "total_ns", "ns", "sum of durations"};
  Integer overlapped_ns{*this, "overlapped_ns", "ns", "of it, while compute kernels ran"};
  Real overlapped_percent{*this, "overlapped_percent", "%", "overlapped_ns of total_ns"};
} communication_overlap{{"communication_overlap", "How much of the communication kernels' time compute hid"}};

inline constexpr struct CommunicationOverlapTrace : Declaration {
  Text name{*this, "name", "", "base name of the kernel"};
  Time start_ns{*this, "start_ns", "ns"};
  Integer duration_ns{*this, "duration_ns", "ns"};
  Integer stream{*this, "stream", "", "id of its CUDA stream"};
  Integer overlapped_ns{*this, "overlapped_ns", "ns", "of it, while compute kernels ran"};
} communication_overlap_trace{{"communication_overlap_trace",
                               "One row per communication kernel, only with --gpu-trace: how much of it compute hid"}};

inline constexpr struct MemoryTransfers : Declaration {
  Text operation{*this, "operation", "", "as nsys names it"};
  Text source{*this, "source", "", "kind of memory read; Pageable copies block the host"};
  Text destination{*this, "destination", "", "kind of memory written"};
  Integer count{*this, "count", "", "operations"};
  Integer bytes{*this, "bytes", "bytes", "sum"};
  Integer total_ns{*this, "total_ns", "ns", "sum of durations"};
  Real bandwidth_gbs{*this, "bandwidth_gbs", "GB/s", "bytes over the sum of durations"};
} memory_transfers{{"memory_transfers", "Copies and sets by operation and kind of memory"}};

inline constexpr struct GpuMemory : Declaration {
  Time start_ns{*this, "start_ns", "ns", "begin of the span of time"};
  Text memory{*this, "memory", "", "kind of memory"};
  Integer in_use_bytes{*this, "in_use_bytes", "bytes", "at the end of the span"};
  Integer peak_bytes{*this, "peak_bytes", "bytes", "most within the span"};
} gpu_memory{{"gpu_memory", "Memory in use over time, counted from the start of the trace"}};

inline constexpr struct GpuMemorySummary : Declaration {
  Text memory{*this, "memory", "", "kind of memory"};
  Integer allocations{*this, "allocations"};
  Integer releases{*this, "releases"};
  Integer allocated_bytes{*this, "allocated_bytes", "bytes", "sum of all allocations"};
  Integer peak_bytes{*this, "peak_bytes", "bytes", "most in use at once"};
  Time peak_ns{*this, "peak_ns", "ns", "when that was reached first"};
  Integer final_bytes{*this, "final_bytes", "bytes", "in use after the last event"};
} gpu_memory_summary{{"gpu_memory_summary", "Allocations by kind of memory"}};

inline constexpr struct IdleCauses : Declaration {
  Text cause{*this, "cause", "",
             "launch_starved: the host launched late; dependency_stalled: waiting for another stream; other"};
  Real share_percent{*this, "share_percent", "%", "of the window from first to last GPU activity"};
  Statistics gaps{*this};
} idle_causes{{"idle_causes", "Time without GPU activity, by why the device had nothing to do"}};

inline constexpr struct GpuElapsed : Declaration {
  Text name{*this, "name", "", "kernel, copy, set or graph"};
  Integer instances{*this, "instances"};
  Integer total_ns{*this, "total_ns", "ns", "sum of durations"};
  Integer elapsed_ns{*this, "elapsed_ns", "ns", "what it adds to the busy time, by start"};
} gpu_elapsed{{"gpu_elapsed", "GPU time by name without counting any moment twice"}};

inline constexpr struct Categories : Declaration {
  Integer trace_rank{*this, "trace_rank", "", "rank of the profiled job"};
  Text category{*this, "category"};
  Integer instances{*this, "instances"};
  Integer elapsed_ns{*this, "elapsed_ns", "ns"};
  Real share_percent{*this, "share_percent", "%", "of the trace rank's rows"};
  Text map{*this, "map", "", "by which categories are told"};
} categories{{"categories", "GPU time by category, no moment counted twice"}};

inline constexpr struct GpuSpeed : Declaration {
  Integer trace_rank{*this, "trace_rank", "", "rank of the profiled job"};
  Integer kernels{*this, "kernels", "", "compared: same name, grid and block"};
  Integer compared_ns{*this, "compared_ns", "ns", "their sum of durations"};
  Integer slower_kernels{*this, "slower_kernels", "", "of them slower than the peers' median"};
  Real ratio{*this, "ratio", "", "to the peers' medians; median over time, above 1: slower"};
  Real p_value{*this, "p_value", "",
               "of being this slow by chance, over all trace ranks: as GPUs drift apart for the length of a capture"};
  Integer slow{*this, "slow", "", "1: significant, at least 2%, and unlike the others"};
  Real spread{*this, "spread", "", "standard deviation of one kernel's executions over its median; median over time"};
  Integer executions{*this, "executions", "", "of one kernel; median over time"};
} gpu_speed{{"gpu_speed", "How long each trace rank takes for the kernels that its peers run, too"}};

inline constexpr struct GpuSamples : Declaration {
  Text source{*this, "source", "", "nvml, or gpu_metrics: means over 1 ms of the samples taken while a kernel runs"};
  Integer samples{*this, "samples"};
  Integer throttled_samples{*this, "throttled_samples", "", "see gpu_throttling"};
  Real median_sm_clock_mhz{*this, "median_sm_clock_mhz", "MHz"};
  Real highest_sm_clock_mhz{*this, "highest_sm_clock_mhz", "MHz",
                            "of both sources: the GPU's limit where sampled, else the highest seen"};
  Real median_power_w{*this, "median_power_w", "W"};
  Real median_temperature_c{*this, "median_temperature_c", "C"};
  Real median_sm_active_percent{*this, "median_sm_active_percent", "%", "by DCGM, as the two that follow"};
  Real median_tensor_active_percent{*this, "median_tensor_active_percent", "%"};
  Real median_dram_active_percent{*this, "median_dram_active_percent", "%"};
} gpu_samples{
    {"gpu_samples",
     "Samples of this trace rank's GPU during its GPU activity, from NVML or DCGM (--nvml) and the trace's own GPU metrics; -1: not sampled"}};

inline constexpr struct GpuCounters : Declaration {
  Text part{*this, "part", "",
            "window (first to last GPU activity), compute, communication (without compute), or idle"};
  Text counter{*this, "counter", "",
               "sms_active, sm_issue, tensor_active, dram_read, dram_write, pcie_receive or pcie_transmit"};
  Integer samples{*this, "samples", "", "of which 90% lie in that part; a sample covers the time since the one before"};
  Real mean_percent{*this, "mean_percent", "%", "of the hardware's peak, weighted by time"};
  Real max_percent{*this, "max_percent", "%"};
  Real peers_median_percent{*this, "peers_median_percent", "%", "median of the means of all trace ranks"};
} gpu_counters{{"gpu_counters", "What SMs, tensor cores, memory and PCIe did, by the trace's own GPU metrics"}};

inline constexpr struct KernelCounters : Declaration {
  Text name{*this, "name", "", "base name of the kernel"};
  Text counter{*this, "counter", "", "as in gpu_counters"};
  Integer samples{*this, "samples", "", "of which executions of the kernel fill 90%"};
  Real mean_percent{*this, "mean_percent", "%", "of the hardware's peak, weighted by time"};
} kernel_counters{
    {"kernel_counters", "The same while one kernel runs: of the 30 with most time, with 3 samples or more"}};

inline constexpr struct ModelFlops : Declaration {
  Text type{*this, "type", "", "fp64, fp32, tf32, fp16 (and bf16), fp8; fp4 and int8 without a known peak"};
  Integer logged_calls{*this, "logged_calls", "", "matrix multiplications in the log"};
  Integer gemm_kernels{*this, "gemm_kernels", "", "GEMM kernels in the trace, of all types"};
  Integer scaled{
      *this, "scaled", "",
      "1: the counts differ by more than 5%, so the FLOPs of the log are scaled to the kernels of the trace"};
  Real flops{*this, "flops", "", "within the trace"};
  Integer gemm_ns{*this, "gemm_ns", "ns", "time of all GEMM kernels"};
  Integer window_ns{*this, "window_ns", "ns", "from the first start to the last end of GPU activity"};
  Real gemm_tflops{*this, "gemm_tflops", "TFLOP/s", "achieved while GEMM kernels run"};
  Real peak_tflops{*this, "peak_tflops", "TFLOP/s", "0: not known for this GPU (--gpu-peaks)"};
  Real gemm_percent{*this, "gemm_percent", "%", "of the peak, while GEMM kernels run"};
  Real mfu_percent{*this, "mfu_percent", "%", "of the peak, over the window: model FLOPs utilisation"};
} model_flops{{"model_flops", "FLOPs of logged matrix multiplications (2MNK) against the peak of the GPU and type"}};

inline constexpr struct GpuThrottling : Declaration {
  Text source{*this, "source", "", "nvml or gpu_metrics, see gpu_samples"};
  Time start_ns{*this, "start_ns", "ns", "first sample of the span"};
  Time end_ns{*this, "end_ns", "ns", "next sample that is not throttled, or the last one"};
  Integer samples{*this, "samples"};
  Real lowest_sm_clock_mhz{*this, "lowest_sm_clock_mhz", "MHz", "-1: not sampled"};
  Integer by_driver{*this, "by_driver", "", "1: the driver gives a reason"};
} gpu_throttling{
    {"gpu_throttling", "Spans in which a GPU in use ran below 90% of its clock, or the driver throttled it"}};

inline constexpr struct StageBalance : Declaration {
  Text stage{*this, "stage", "",
             "as in rank_places; else 'trace rank N', of a job of two that differ in their collectives"};
  Integer trace_ranks{*this, "trace_ranks", "", "of this stage"};
  Integer kernel_ns{*this, "kernel_ns", "ns", "median over the spans"};
  Integer others_kernel_ns{*this, "others_kernel_ns", "ns", "likewise, of the median of the other stages"};
  Integer shared_ns{*this, "shared_ns", "ns", "of kernels that other stages run, too: of equal name, grid and block"};
  Integer others_shared_ns{*this, "others_shared_ns", "ns", "likewise, of the median of the other stages"};
  Real surplus{*this, "surplus", "", "share of kernel_ns beyond the others' that shared kernels account for"};
  Real p_value{*this, "p_value", "", "bound on its probability if stages were dealt out at random"};
} stage_balance{
    {"stage_balance",
     "Kernel time of each pipeline stage per span of whole steps, of its median trace rank on a GPU of usual speed"}};

inline constexpr struct Streams : Declaration {
  Integer context{*this, "context"};
  Integer stream{*this, "stream", "", "CUPTI's number"};
  Integer kernels{*this, "kernels"};
  Integer communication_kernels{*this, "communication_kernels", "", "of these"};
  Integer memory_operations{*this, "memory_operations", "", "copies and sets"};
  Integer graph_launches{*this, "graph_launches", "", "graphs recorded as one interval"};
  Time first_ns{*this, "first_ns", "ns", "first start"};
  Time last_ns{*this, "last_ns", "ns", "last end"};
  Integer busy_ns{*this, "busy_ns", "ns", "union of its activities"};
} streams{{"streams", "What ran on each CUDA stream"}};

inline constexpr struct ContendedKernelsTable : Declaration {
  Text name{*this, "name", "", "demangled; kernels of one name, grid and block make a row"};
  Integer alone{*this, "alone", "", "kernels without a collective beside them"};
  Integer alone_ns{*this, "alone_ns", "ns", "their median"};
  Integer beside{*this, "beside", "", "kernels with a collective beside them all the time"};
  Integer beside_ns{*this, "beside_ns", "ns", "their median"};
  Integer time_beside_ns{*this, "time_beside_ns", "ns", "time of all of them beside collectives"};
  Integer lost_ns{*this, "lost_ns", "ns", "of this: times 1 - alone_ns / beside_ns"};
} contended_kernels{{"contended_kernels", "Compute kernels that take longer beside collectives than alone"}};

inline constexpr struct StreamConcurrency : Declaration {
  Integer busy_streams{*this, "busy_streams", "", "exactly that many"};
  Integer duration_ns{*this, "duration_ns", "ns"};
} stream_concurrency{{"stream_concurrency", "How long how many streams were busy at once"}};

inline constexpr struct GpuUtilisation : Declaration {
  Time start_ns{*this, "start_ns", "ns", "begin of the span of time"};
  Integer span_ns{*this, "span_ns", "ns", "its length"};
  Integer compute_ns{*this, "compute_ns", "ns", "compute kernels"};
  Integer exposed_communication_ns{*this, "exposed_communication_ns", "ns", "communication without compute"};
  Integer copy_ns{*this, "copy_ns", "ns", "copies and sets under neither"};
  Integer opaque_graph_ns{*this, "opaque_graph_ns", "ns", "graphs recorded as one interval"};
  Integer idle_ns{*this, "idle_ns", "ns", "no GPU activity"};
  Integer activity_ns{*this, "activity_ns", "ns", "sum of durations"};
} gpu_utilisation{{"gpu_utilisation", "Where the time of the device went, over time"}};

inline constexpr struct IdleGaps : Declaration {
  Time start_ns{*this, "start_ns", "ns", "end of the GPU activity before"};
  Integer duration_ns{*this, "duration_ns", "ns"};
  Text cause{*this, "cause", "", "as in idle_causes"};
  Time launched_ns{*this, "launched_ns", "ns", "when the call began that launched the next activity"};
  Text next{*this, "next", "", "the activity that ended the gap"};
} idle_gaps{{"idle_gaps", "The longest times without GPU activity: up to 200 of each trace rank, by start"}};

inline constexpr struct Roofline : Declaration {
  Text kernel{*this, "kernel", "", "as Nsight Compute shows it"};
  Integer count{*this, "count", "", "executions in the trace"};
  Integer total_ns{*this, "total_ns", "ns", "sum of durations"};
  Real flops{*this, "flops", "", "per launch; add + mul + 2 fma, and tensor operations where counted"};
  Real dram_bytes{*this, "dram_bytes", "bytes", "per launch"};
  Real intensity{*this, "intensity", "FLOP/byte"};
  Real achieved_tflops{*this, "achieved_tflops", "TFLOP/s"};
  Real attainable_tflops{*this, "attainable_tflops", "TFLOP/s",
                         "least of the FP16 tensor peak and intensity times peak bandwidth"};
  Real achieved_gbs{*this, "achieved_gbs", "GB/s"};
  Real peak_gbs{*this, "peak_gbs", "GB/s", "0: not known for this GPU (--gpu-peaks)"};
  Real bandwidth_percent{*this, "bandwidth_percent", "%", "achieved of peak"};
  Text bound{*this, "bound", "", "memory, compute, or latency (neither above 60% in Nsight Compute)"};
  Real sm_percent{*this, "sm_percent", "%", "Nsight Compute: throughput of the multiprocessors"};
  Real dram_percent{*this, "dram_percent", "%", "Nsight Compute: throughput of the memory"};
  Real tensor_percent{*this, "tensor_percent", "%", "Nsight Compute: tensor pipe active"};
  Real l2_hit_percent{*this, "l2_hit_percent", "%", "Nsight Compute"};
  Real occupancy_percent{*this, "occupancy_percent", "%", "Nsight Compute: achieved"};
  Text top_stall{*this, "top_stall", "", "reason that stalls warps most"};
  Real bank_conflicts{*this, "bank_conflicts", "",
                      "Nsight Compute: of loads from and stores to shared memory, per launch"};
  Real sectors_per_load{
      *this, "sectors_per_load", "",
      "Nsight Compute: of 32 bytes of global memory, by a request of a warp; 4 where its threads read "
      "adjacent words of four bytes"};
  Real sectors_per_store{*this, "sectors_per_store", "", "likewise, of stores"};
} roofline{
    {"roofline",
     "Work per launch from Nsight Compute over the durations in this trace; -1: not collected, or the GPU's peak is not known"}};

inline constexpr struct KernelStalls : Declaration {
  Text kernel{*this, "kernel", "", "as Nsight Compute shows it"};
  Integer total_ns{*this, "total_ns", "ns", "sum of the kernel's durations in the trace"};
  Text reason{*this, "reason", "", "as the metric's name has it"};
  Text meaning{*this, "meaning", "", "what the warp waits for; empty: of a reason that is not known here"};
  Real share_percent{*this, "share_percent", "%", "of all reasons of the kernel"};
} kernel_stalls{
    {"kernel_stalls", "Why warps of kernels that Nsight Compute profiled did not issue, largest share first"}};

inline constexpr struct KernelPeers : Declaration {
  Text name{*this, "name", "", "kernel with its template and argument lists"};
  Integer grid_x{*this, "grid_x"}, grid_y{*this, "grid_y"}, grid_z{*this, "grid_z"};
  Integer block_x{*this, "block_x"}, block_y{*this, "block_y"}, block_z{*this, "block_z"};
  Integer trace_rank{*this, "trace_rank", "", "rank of the profiled job"};
  Integer count{*this, "count", "", "executions"};
  Real median_ns{*this, "median_ns", "ns", "of durations"};
  Real peers_median_ns{*this, "peers_median_ns", "ns", "median of the other trace ranks' medians"};
  Real ratio{*this, "ratio", "", "median over peers' median; above 1: slower"};
  Real z{*this, "z", "", "log ratio in standard errors"};
} kernel_peers{{"kernel_peers", "The same kernel on different trace ranks: medians against the peers'"}};

inline constexpr struct SharedGpus : Declaration {
  Integer device_id{*this, "device_id", "", "in its export"};
  Integer processes{*this, "processes", "", "that launch kernels on it; the row stands with the first of them"};
  Integer launches{*this, "launches", "", "kernels of all of them"};
  Integer window_ns{*this, "window_ns", "ns", "from the first start to the last end of a kernel"};
  Real launches_per_second{*this, "launches_per_second", "", "launches / window"};
  Real median_ns{*this, "median_ns", "ns", "duration of a kernel"};
  Real p90_ns{*this, "p90_ns", "ns", "90th percentile, interpolated"};
  Real p99_ns{*this, "p99_ns", "ns", "99th percentile, interpolated"};
  Integer busy_ns{*this, "busy_ns", "ns", "some kernel ran"};
  Integer idle_ns{*this, "idle_ns", "ns", "window - busy"};
  Real idle_percent{*this, "idle_percent", "%", "of the window"};
  Integer longest_gap_ns{*this, "longest_gap_ns", "ns", "without a kernel"};
} shared_gpus{
    {"shared_gpus",
     "One row per GPU that several processes of an export launch kernels on: launches and idle time of all together; the other tables have each by itself"}};

inline constexpr struct GpuTrace : Declaration {
  Time start_ns{*this, "start_ns", "ns"};
  Integer duration_ns{*this, "duration_ns", "ns"};
  Text kind{*this, "kind", "", "kernel, copy, set or graph"};
  Text name{*this, "name", "", "of the kernel with its argument lists, else as nsys names it"};
  Integer context{*this, "context", "", "id of its CUDA context"};
  Integer stream{*this, "stream", "", "id of its CUDA stream"};
  Time launched_ns{*this, "launched_ns", "ns", "start of the call that launched it"};
  Integer latency_ns{*this, "latency_ns", "ns", "from then to its start; -1: the call was not recorded"};
  Integer bytes{*this, "bytes", "bytes", "of a copy or set; else -1"};
  Text source{*this, "source", "", "kind of memory that a copy reads"};
  Text destination{*this, "destination", "", "kind of memory that a copy or set writes"};
  Text grid{*this, "grid", "", "blocks of a kernel: x, y, z"};
  Text block{*this, "block", "", "threads of a block: x, y, z"};
  Integer registers{*this, "registers", "", "of a kernel, per thread; else -1"};
  Integer static_shared_bytes{*this, "static_shared_bytes", "bytes", "shared memory of a kernel's block; else -1"};
  Integer dynamic_shared_bytes{*this, "dynamic_shared_bytes", "bytes", "likewise, given at launch; else -1"};
  Real throughput_gbs{*this, "throughput_gbs", "GB/s", "bytes / duration of a copy or set; else -1"};
} gpu_trace{{"gpu_trace", "One row per kernel, copy, set and graph: only with --gpu-trace"}};

inline constexpr struct Layers : Declaration {
  Integer pass{*this, "pass", "", "a sequence of kernels that repeats within a step: 0 the first, as a forward pass"};
  Integer layer{*this, "layer", "", "0 the first of its pass"};
  Integer steps{*this, "steps", "", "that run the same kernels in the same order: those summed here"};
  Integer kernels{*this, "kernels", "", "compute kernels"};
  Integer time_ns{*this, "time_ns", "ns", "to the first kernel of the next layer: the sum of what follows"};
  Integer compute_ns{*this, "compute_ns", "ns", "compute kernels"};
  Integer exposed_communication_ns{*this, "exposed_communication_ns", "ns",
                                   "communication without compute, waiting for others included"};
  Integer copy_ns{*this, "copy_ns", "ns", "copies, sets and graphs recorded as one interval, under neither"};
  Integer idle_ns{*this, "idle_ns", "ns", "no GPU activity: gaps between launches"};
  Integer collectives{*this, "collectives", "", "entered within it"};
} layers{{"layers",
          "Repeats of a sequence of compute kernels (name and grid) within a step: the layers of a model, as a rule, "
          "told without NVTX; layers at the ends that differ are not among them"}};

inline constexpr struct CudaApiGpu : Declaration {
  Integer trace_rank{*this, "trace_rank", "", "rank of the profiled job"};
  Text category{*this, "category", "", "CUDA_API, CUDA_KERNEL or MEMORY_OPER"};
  Text operation{*this, "operation", "", "call, kernel, copy or set"};
  Real share_percent{*this, "share_percent", "%", "of the sum of the trace rank's rows"};
  Statistics durations{*this};
} cuda_api_gpu{{"cuda_api_gpu", "Calls of the host, kernels and memory operations in one list, most time first"}};

}  // namespace nsys_explain::schema
