#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsys_explain/model/time.hpp"

/// What the tables of all trace ranks add up to, in short, for report.md and report.json. Every list is sorted,
/// most time first, and bounded; the tables hold all rows.
namespace nsys_explain {

/// One kernel name over all trace ranks.
struct KernelSummary {
  std::string name;
  bool communication = false;
  std::int64_t trace_ranks = 0, count = 0;
  Nanoseconds total_ns = 0, max_ns = 0;
  double share = 0;                      ///< of the sum of all kernel durations
  double tail_score_ns = 0;              ///< summed over trace ranks
  Nanoseconds overlapped_ns = 0;         ///< communication: of total_ns, while compute ran on the same device
  std::int32_t largest_trace_rank = -1;  ///< the one with most time in it
  Nanoseconds largest_ns = 0;
};

/// What is counted by kind and name.
struct NamedTotal {
  std::string kind, name;
  std::int64_t count = 0;
  Nanoseconds total_ns = 0, max_ns = 0;
};

/// One suspect for what the run's length hangs on, whatever its kind.
struct Suspect {
  std::string kind;  ///< kernel, communication, barrier, idle or copy
  std::string name;
  std::int64_t count = 0;
  Nanoseconds total_ns = 0;
  double share = 0;  ///< of the window of all trace ranks
};

struct ProcessSummary {
  std::string path;
  std::int32_t process_id = 0;
  std::vector<std::int32_t> trace_ranks;
  Nanoseconds kernel_ns = 0, communication_ns = 0;
  Nanoseconds barrier_ns = 0;  ///< without gaps between launches, which hold the other barriers
  std::int64_t kernels = 0;
  std::string top_kernel, top_communication, top_barrier;
};

struct CategorySummary {
  std::string category;
  Nanoseconds elapsed_ns = 0;
  double share = 0;
  double smallest_share = 0, largest_share = 0;  ///< of a trace rank
};

/// One GPU against those that run the same kernels.
struct GpuSpeed {
  std::int32_t trace_rank = -1;
  std::int64_t kernels = 0;       ///< compared
  double ratio = 1, p_value = 1;  ///< of their durations; of being this slow by chance, over all trace ranks
  bool slow = false;              ///< significant, at least 2%, and unlike the others
  double spread = 0;              ///< relative standard deviation of one kernel's executions, of a typical kernel
  std::int64_t executions = 0;    ///< likewise, their number

  template <class Archive>
  void serialize(Archive& archive) {
    archive(trace_rank, kernels, ratio, p_value, slow, spread, executions);
  }
};

struct LaunchSummary {
  std::int64_t launches = 0;
  std::vector<std::int32_t> storming;  ///< trace ranks in a launch storm
  double largest_rate = 0;             ///< launches per second of the trace rank with most
  std::int32_t largest_trace_rank = -1;
};

/// A percentage that each trace rank has.
struct PercentSpread {
  std::string name;
  std::int64_t trace_ranks = 0;
  double lowest = 0, median = 0, highest = 0;
  std::int32_t lowest_trace_rank = -1, highest_trace_rank = -1;
};

struct ActivitySummary {
  std::vector<KernelSummary> kernels;        ///< by name with template and argument lists
  std::vector<KernelSummary> communication;  ///< communication kernels by base name
  std::vector<NamedTotal> overheads;         ///< kind: profiler or cuda
  Nanoseconds profiler_in_window_ns = 0;     ///< of the profiler's, while the GPUs of their process were in use
  std::vector<Suspect> suspects;
  std::vector<ProcessSummary> processes;  ///< by path and process
  std::string category_map;
  std::vector<CategorySummary> categories;
  std::vector<GpuSpeed> gpu_speeds;             ///< by trace rank
  std::vector<PercentSpread> compute_counters;  ///< means while compute kernels run; empty: no such GPU metrics
  std::vector<PercentSpread> mfu;               ///< model FLOPs utilisation by type; empty: no log of cuBLAS
  LaunchSummary launches;
  std::int64_t largest_gpu_memory_bytes = 0;  ///< peak of one kind on one trace rank; 0: not recorded
  bool has_thread_states = false;
};

}  // namespace nsys_explain
