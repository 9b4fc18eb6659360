#pragma once

#include "model/schema/declaration.hpp"

/// What the host of each trace rank did, and what its program marked by NVTX ranges.
namespace nsys_explain::schema {

inline constexpr struct CudaApi : Declaration {
  Text name{*this, "name", "", "function, as nsys names it"};
  Real share_percent{*this, "share_percent", "%", "of the time of all CUDA calls"};
  Statistics durations{*this};
} cuda_api{{"cuda_api", "CUDA runtime and driver calls of the process, most time first"}};

inline constexpr struct Allocations : Declaration {
  Text name{*this, "name", "", "function"};
  Integer count{*this, "count", "", "calls"};
  Integer total_ns{*this, "total_ns", "ns", "sum of durations"};
  Integer in_window_ns{*this, "in_window_ns", "ns", "of it, between the first and the last GPU activity"};
  Integer max_ns{*this, "max_ns", "ns", "longest"};
  Real calls_per_second{*this, "calls_per_second", "1/s", "from the first to the last CUDA call"};
} allocations{{"allocations", "Calls that make or destroy memory, streams, events or graphs, most time first"}};

inline constexpr struct CallStacks : Declaration {
  Text name{*this, "name", "", "CUDA function"};
  Text stack{*this, "stack", "", "who called it: functions, innermost first; a library where no function is known"};
  Integer count{*this, "count", "", "calls"};
  Integer total_ns{*this, "total_ns", "ns", "sum of durations"};
  Integer max_ns{*this, "max_ns", "ns", "longest"};
} call_stacks{{"call_stacks", "Places of the program that make slow CUDA calls (--cudabacktrace), most time first"}};

inline constexpr struct LibraryCalls : Declaration {
  Text library{*this, "library", "", "cuBLAS or cuDNN"};
  Text name{*this, "name", "", "function"};
  Statistics durations{*this};
} library_calls{{"library_calls", "Calls of the process into cuBLAS and cuDNN (-t cublas,cudnn), most time first"}};

inline constexpr struct CudaErrors : Declaration {
  Text name{*this, "name", "", "function"};
  Integer status{*this, "status", "", "what it returned: a number of cudaError_t"};
  Text meaning{*this, "meaning", "", "its name; empty: not known here"};
  Integer count{*this, "count", "", "calls"};
  Time first_ns{*this, "first_ns", "ns", "end of the first such call"};
  Integer severity{*this, "severity", "",
                   "2: the process can do no more on its GPUs, 1: a failure, 0: an answer, or a question in vain"};
} cuda_errors{{"cuda_errors", "CUDA calls that returned something else than success, gravest first"}};

inline constexpr struct CpuFunctions : Declaration {
  Integer thread_id{*this, "thread_id"};
  Integer launches{*this, "launches", "", "1: the thread launches work of this GPU"};
  Text function{*this, "function", "", "innermost known one of the call chain, and its library"};
  Integer samples{*this, "samples"};
  Integer time_ns{*this, "time_ns", "ns", "samples times the sampling period, the median from one to the next"};
  Real share_percent{*this, "share_percent", "%", "of the samples of the thread"};
  Integer cores{*this, "cores", "", "on which the thread was met, in all of its samples"};
} cpu_functions{{"cpu_functions", "Where CPU samples found each thread: its 50 most frequent functions"}};

inline constexpr struct Barriers : Declaration {
  Text kind{*this, "kind", "", "sync_api, blocking_memcpy, launcher_gap or host_wait"};
  Text name{*this, "name", "", "function"};
  Integer count{*this, "count"};
  Integer total_ns{*this, "total_ns", "ns", "sum of durations"};
  Real mean_ns{*this, "mean_ns", "ns"};
  Integer max_ns{*this, "max_ns", "ns", "longest"};
} barriers{{"barriers", "Where the host stopped: waiting for the GPU, blocking copies, pauses between launches"}};

inline constexpr struct ExpertRules : Declaration {
  Text rule{*this, "rule", "", "as nsys names it"};
  Integer cases{*this, "cases"};
  Integer total_ns{*this, "total_ns", "ns", "sum of their durations"};
  Integer bytes{*this, "bytes", "bytes", "copied or set"};
} expert_rules{{"expert_rules", "The rules of nsys analyze with its default limits: how often each applies"}};

inline constexpr struct LaunchStorm : Declaration {
  Integer launches{*this, "launches", "", "kernel executions"};
  Integer window_ns{*this, "window_ns", "ns", "first start to last end of kernels"};
  Real launches_per_second{*this, "launches_per_second", "1/s"};
  Real median_ns{*this, "median_ns", "ns", "of durations"};
  Real p90_ns{*this, "p90_ns", "ns"};
  Real p99_ns{*this, "p99_ns", "ns"};
  Real under_5us_percent{*this, "under_5us_percent", "%", "kernels shorter than 5 us"};
  Real under_10us_percent{*this, "under_10us_percent", "%"};
  Real under_20us_percent{*this, "under_20us_percent", "%"};
  Integer storm{*this, "storm", "", "1: at least 100, and so many, so short, that launching limits"};
} launch_storm{{"launch_storm", "How many kernels were launched and how short they are"}};

inline constexpr struct OsRuntime : Declaration {
  Text name{*this, "name", "", "function"};
  Real share_percent{*this, "share_percent", "%", "of the sum of all rows"};
  Integer outermost_ns{*this, "outermost_ns", "ns", "of calls that are not within another recorded one"};
  Statistics durations{*this};
} os_runtime{{"os_runtime", "Calls into the operating system's libraries, most time first"}};

inline constexpr struct ProfilerOverhead : Declaration {
  Integer profiler{*this, "profiler", "", "1: the profiler's doing; 0: CUDA's own"};
  Text kind{*this, "kind", "", "as CUPTI classifies it"};
  Text name{*this, "name"};
  Integer count{*this, "count"};
  Integer total_ns{*this, "total_ns", "ns", "sum of durations"};
  Integer union_ns{*this, "union_ns", "ns", "counted once where rows of a thread overlap"};
  Integer in_window_ns{*this, "in_window_ns", "ns", "of union_ns, between the first and the last GPU activity"};
  Integer max_ns{*this, "max_ns", "ns", "longest"};
} profiler_overhead{{"profiler_overhead", "Time that the profiler took from threads, or CUDA spent behind the scenes"}};

inline constexpr struct ThreadStates : Declaration {
  Integer thread{*this, "thread", "", "thread id"};
  Text state{*this, "state", "", "on_cpu, or why it was off: unknown where not exported"};
  Integer duration_ns{*this, "duration_ns", "ns"};
  Integer switches{*this, "switches", "", "times that the thread went on a CPU"};
  Integer migrations{*this, "migrations", "", "of them, on another CPU than before"};
} thread_states{{"thread_states", "Where threads spent their time, by the scheduler's record"}};

inline constexpr struct ThreadCores : Declaration {
  Integer thread{*this, "thread", "", "thread id"};
  Integer launches{*this, "launches", "", "1: the thread launches work of this GPU"};
  Text source{*this, "source", "", "scheduler (every switch), or samples (where a CPU sampler met the thread)"};
  Integer cores{*this, "cores", "", "on which the thread was"};
  Integer core{*this, "core", "", "where it was most"};
  Real core_percent{*this, "core_percent", "%", "of its time on cores, or of its samples, that it was there"};
  Integer on_cpu_ns{*this, "on_cpu_ns", "ns", "-1: by samples"};
  Integer migrations{*this, "migrations", "", "times that it was next seen on another core"};
  Integer preemptions{*this, "preemptions", "",
                      "times that it left a core although it could run; -1: the export does not tell"};
  Integer preempted_ns{*this, "preempted_ns", "ns", "from then until it got a core again; -1: likewise"};
} thread_cores{{"thread_cores", "Which cores each thread ran on, how often it moved, and how often it was sent away"}};

inline constexpr struct RunFacts : Declaration {
  Text fact{*this, "fact", "", "driver, gpu, framework, ..."};
  Text value{*this, "value", "", "a list where several hold"};
} run_facts{{"run_facts", "What each trace rank ran on and with, as its export tells it"}};

inline constexpr struct Phases : Declaration {
  Text phase{*this, "phase", "", "step, forward, backward, optimizer, prefill, decode or the user's"};
  Integer ranges{*this, "ranges", "", "times the phase was entered"};
  Integer host_ns{*this, "host_ns", "ns", "sum of the ranges' durations"};
  Integer projected_ns{*this, "projected_ns", "ns", "sum over ranges: first start to last end of their GPU work"};
  Integer gpu_operations{*this, "gpu_operations", "", "kernels, copies, sets and graphs launched in it"};
  Integer kernels{*this, "kernels"};
  Integer kernel_ns{*this, "kernel_ns", "ns", "sum of their durations"};
  Integer other_thread_kernel_ns{*this, "other_thread_kernel_ns", "ns",
                                 "of that: launched by threads without phases, attributed by time"};
} phases{
    {"phases",
     "GPU work by phase of the program (NVTX ranges); a kernel belongs to the innermost phase around its launch, and to its step besides"}};

inline constexpr struct Serving : Declaration {
  Text latency{*this, "latency", "", "time_to_first_token or time_per_output_token"};
  Statistics latencies{*this};
} serving{{"serving", "Latencies of token generation, where prefill and decode are NVTX ranges"}};

inline constexpr struct NvtxCoverage : Declaration {
  Integer ranges{*this, "ranges", "", "NVTX ranges of the process, NCCL's not counted"};
  Integer kernels{*this, "kernels"};
  Integer kernel_ns{*this, "kernel_ns", "ns", "sum of their durations"};
  Integer launched_kernels{*this, "launched_kernels", "", "those whose launching call is in the export"};
  Integer launched_ns{*this, "launched_ns", "ns", "their durations"};
  Integer covered_kernels{*this, "covered_kernels", "",
                          "those launched inside a range on the same thread, NCCL's ranges not counted"};
  Integer covered_ns{*this, "covered_ns", "ns", "their durations"};
} nvtx_coverage{
    {"nvtx_coverage",
     "How much of the kernel time can be attributed: to a launching call, and to an NVTX range of the program"}};

inline constexpr struct LaunchLatency : Declaration {
  Integer lower_ns{*this, "lower_ns", "ns", "shortest latency that counts here"};
  Integer upper_ns{*this, "upper_ns", "ns", "first latency that no longer counts here"};
  Integer count{*this, "count", "", "kernels"};
} launch_latency{{"launch_latency", "From the start of the launching call to the start of the kernel"}};

}  // namespace nsys_explain::schema
