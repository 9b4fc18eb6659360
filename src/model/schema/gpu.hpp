#pragma once

#include <array>
#include <string_view>

#include "model/schema/declaration.hpp"
#include "model/schema/statistics.hpp"

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
  using Declaration::Declaration;
  Text name{*this, "name", "", "kernel"};
  Shape shape{*this};
  Integer communication{*this, "communication", "", "1: it moves data between ranks"};
  Real share_percent{*this, "share_percent", "%", "of the sum of all kernel durations"};
  Statistics durations{*this};
  Text tail{*this, "tail", "", "none, outliers (max > 2 medians) or systematic (p99 > 1.5)"};
  Real tail_score_ns{*this, "tail_score_ns", "ns", "(p99 - median) x count"};
};
inline constexpr Kernels<AnyShape> kernels{"kernels",
                                           "Kernels by name with template and argument lists, most time first"};
inline constexpr Kernels<AnyShape> kernels_by_base_name{"kernels_by_base_name",
                                                        "Kernels by base name, most time first"};
inline constexpr Kernels<AnyShape> kernels_by_mangled_name{"kernels_by_mangled_name",
                                                           "Kernels by mangled name, most time first"};
inline constexpr Kernels<LaunchShape> kernels_by_launch{"kernels_by_launch",
                                                        "Kernels by name, grid and block, most time first"};

inline constexpr struct CommunicationOverlap : Declaration {
  using Declaration::Declaration;
  Text name{*this, "name", "", "base name of the kernel"};
  Integer count{*this, "count", "", "executions"};
  Integer total_ns{*this, "total_ns", "ns", "sum of durations"};
  Integer overlapped_ns{*this, "overlapped_ns", "ns", "of it, while compute kernels ran"};
  Real overlapped_percent{*this, "overlapped_percent", "%", "overlapped_ns of total_ns"};
} communication_overlap{"communication_overlap", "How much of the communication kernels' time compute hid"};

inline constexpr struct MemoryTransfers : Declaration {
  using Declaration::Declaration;
  Text operation{*this, "operation", "", "as nsys names it"};
  Text source{*this, "source", "", "kind of memory read; Pageable copies block the host"};
  Text destination{*this, "destination", "", "kind of memory written"};
  Integer count{*this, "count", "", "operations"};
  Integer bytes{*this, "bytes", "bytes", "sum"};
  Integer total_ns{*this, "total_ns", "ns", "sum of durations"};
  Real bandwidth_gbs{*this, "bandwidth_gbs", "GB/s", "bytes over the sum of durations"};
} memory_transfers{"memory_transfers", "Copies and sets by operation and kind of memory"};

inline constexpr struct GpuMemorySummary : Declaration {
  using Declaration::Declaration;
  Text memory{*this, "memory", "", "kind of memory"};
  Integer allocations{*this, "allocations"};
  Integer releases{*this, "releases"};
  Integer allocated_bytes{*this, "allocated_bytes", "bytes", "sum of all allocations"};
  Integer peak_bytes{*this, "peak_bytes", "bytes", "most in use at once"};
  Time peak_ns{*this, "peak_ns", "ns", "when that was reached first"};
  Integer final_bytes{*this, "final_bytes", "bytes", "in use after the last event"};
} gpu_memory_summary{"gpu_memory_summary", "Allocations by kind of memory"};

inline constexpr struct IdleCauses : Declaration {
  using Declaration::Declaration;
  Text cause{*this, "cause", "",
             "launch_starved: the host launched late; dependency_stalled: waiting for another stream; other"};
  Real share_percent{*this, "share_percent", "%", "of the window from first to last GPU activity"};
  Statistics gaps{*this};
} idle_causes{"idle_causes", "Time without GPU activity, by why the device had nothing to do"};

inline constexpr struct GpuElapsed : Declaration {
  using Declaration::Declaration;
  Text name{*this, "name", "", "kernel, copy, set or graph"};
  Integer instances{*this, "instances"};
  Integer total_ns{*this, "total_ns", "ns", "sum of durations"};
  Integer elapsed_ns{*this, "elapsed_ns", "ns", "what it adds to the busy time, by start"};
} gpu_elapsed{"gpu_elapsed", "GPU time by name without counting any moment twice"};

/// Its description names the map of categories, too.
inline constexpr struct Categories : Declaration {
  using Declaration::Declaration;
  Integer trace_rank{*this, "trace_rank", "", "rank of the profiled job"};
  Text category{*this, "category"};
  Integer instances{*this, "instances"};
  Integer elapsed_ns{*this, "elapsed_ns", "ns"};
  Real share_percent{*this, "share_percent", "%", "of the trace rank's rows"};
} categories{"categories", "GPU time by category, no moment counted twice"};

inline constexpr struct GpuSpeed : Declaration {
  using Declaration::Declaration;
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
} gpu_speed{"gpu_speed", "How long each trace rank takes for the kernels that its peers run, too"};

inline constexpr struct GpuSamples : Declaration {
  using Declaration::Declaration;
  Text source{*this, "source", "", "nvml, or gpu_metrics: means over 1 ms of the samples taken while a kernel runs"};
  Integer samples{*this, "samples"};
  Integer throttled_samples{*this, "throttled_samples", "", "see gpu_throttling"};
  Real median_sm_clock_mhz{*this, "median_sm_clock_mhz", "MHz"};
  Real highest_sm_clock_mhz{*this, "highest_sm_clock_mhz", "MHz",
                            "of both sources: the GPU's limit where sampled, else the highest seen"};
  Real median_power_w{*this, "median_power_w", "W"};
  Real median_temperature_c{*this, "median_temperature_c", "C"};
} gpu_samples{"gpu_samples",
              "Samples of this trace rank's GPU during its GPU activity, from NVML (--nvml) and the trace's own "
              "GPU metrics; -1: not sampled"};

inline constexpr struct GpuThrottling : Declaration {
  using Declaration::Declaration;
  Text source{*this, "source", "", "nvml or gpu_metrics, see gpu_samples"};
  Time start_ns{*this, "start_ns", "ns", "first sample of the span"};
  Time end_ns{*this, "end_ns", "ns", "next sample that is not throttled, or the last one"};
  Integer samples{*this, "samples"};
  Real lowest_sm_clock_mhz{*this, "lowest_sm_clock_mhz", "MHz", "-1: not sampled"};
  Integer by_driver{*this, "by_driver", "", "1: the driver gives a reason"};
} gpu_throttling{"gpu_throttling",
                 "Spans in which a GPU in use ran below 90% of its clock, or the driver throttled it"};

inline constexpr struct StageBalance : Declaration {
  using Declaration::Declaration;
  Text stage{*this, "stage", "",
             "as in rank_places; else 'trace rank N', of a job of two that differ in their collectives"};
  Integer trace_ranks{*this, "trace_ranks", "", "of this stage"};
  Integer kernel_ns{*this, "kernel_ns", "ns", "median over the spans"};
  Integer others_kernel_ns{*this, "others_kernel_ns", "ns", "likewise, of the median of the other stages"};
  Integer shared_ns{*this, "shared_ns", "ns", "of kernels that other stages run, too: of equal name, grid and block"};
  Integer others_shared_ns{*this, "others_shared_ns", "ns", "likewise, of the median of the other stages"};
  Real surplus{*this, "surplus", "", "share of kernel_ns beyond the others' that shared kernels account for"};
  Real p_value{*this, "p_value", "", "bound on its probability if stages were dealt out at random"};
} stage_balance{"stage_balance",
                "Kernel time of each pipeline stage per span of whole steps, of its median trace rank on a GPU of "
                "usual speed"};

}  // namespace nsys_explain::schema
