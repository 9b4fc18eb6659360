#pragma once

#include <set>

#include "ingest/row_filters.hpp"
#include "ingest/string_table.hpp"
#include "ingest/table_scan.hpp"
#include "ingest/trace_builder.hpp"

/// The readers of an export's event tables.
namespace nsys_explain::ingest {

/// What every table reader needs: where to read, and where results and problems go.
struct Reading {
  const Database& database;
  const TimeBase& time_base;
  StringTable& strings;
  TraceBuilder& builder;
  std::vector<Warning>& warnings;
};

/// CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET and _GRAPH_TRACE.
void read_gpu_activity(const Reading& reading);

/// CUPTI_ACTIVITY_KIND_RUNTIME: runtime and driver calls.
void read_api_calls(const Reading& reading);

/// Kernels whose launching call is not in the trace. Needs kernels and API calls to be read.
std::int64_t count_kernels_without_call(const std::vector<ProcessTrace>& processes);

/// "cudaLaunchKernel_v7000" -> "cudaLaunchKernel".
std::string_view without_version_suffix(std::string_view api_name);

/// "cudaLaunchKernel_v7000" -> 7000; 0 where there is no suffix or it does not fit.
std::uint16_t version_suffix(std::string_view api_name);

// What the host did besides CUDA calls. Captures trace the whole machine; only processes that are in the trace
// already, because they have CUDA or NVTX events, get rows: read these last.

/// CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, _CUDA_EVENT, CUDA_GPU_MEMORY_USAGE_EVENTS and CUDA_GRAPH_NODE_EVENTS.
void read_synchronization(const Reading& reading);

/// OSRT_API, PROFILER_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD and SCHED_EVENTS.
void read_host_events(const Reading& reading);

/// Before nsys 2025.5 only the name says what kind of overhead a row is ("CUPTI: Buffer flush").
OverheadKind overhead_kind_of_name(std::string_view name);

/// CPU samples of the known processes, each with the frame of its call chain that tells most (COMPOSITE_EVENTS,
/// SAMPLING_CALLCHAINS).
void read_cpu_samples(const Reading& reading);

/// Of a library, without its directories.
std::string_view file_name(std::string_view path);
/// Its frames tell nothing of the program.
bool is_profilers_library(std::string_view path);

/// CUDA calls whose backtraces were recorded (CUPTI_ACTIVITY_KIND_RUNTIME, CUDA_CALLCHAINS).
void read_traced_calls(const Reading& reading);

/// Calls into cuBLAS and cuDNN (CUBLAS_EVENTS, CUDNN_EVENTS).
void read_library_calls(const Reading& reading);

/// Calls `use(process, range)` for the calls into MPI of known processes (captured with -t mpi), in no particular
/// order: ranges of the calling thread, whose domain is left to the caller. Adds those that wait,
/// and those that begin a message, to ProcessTrace::mpi_calls.
void read_mpi_calls(const Reading& reading, const std::function<void(ProcessTrace&, const NvtxRange&)>& use);

/// Ranks that nsys wrote into thread names ("MPI Rank 3") before it had the table MPI_RANKS, by process.
using ThreadNameRanks = std::map<std::uint64_t, std::set<std::int32_t>>;

/// NVTX_EVENTS: ranges and marks with the names of their domains, and NCCL's calls with their payloads.
/// Ranges come out sorted, with nccl_calls in the same order.
ThreadNameRanks read_nvtx_events(const Reading& reading);

/// The counter that goes by this name, with or without its unit ("[Throughput %]"); names changed between nsys
/// releases and chips. Empty: none that an analysis uses.
std::optional<GpuCounter> gpu_counter_named(std::string_view metric_name);

/// GPU_METRICS: fills the samples of every device whose GPU is known (DeviceTrace::gpu_id) and was sampled. Where the
/// export does not map devices to GPUs, one sampled GPU belongs to the only device; else CUDA ordinals are taken for
/// the numbers of the GPUs, with a warning. Samples of GPUs that no process here used are not kept.
void read_gpu_metrics(const Database& database, const TimeBase& time_base, std::vector<ProcessTrace>& processes,
                      std::vector<Warning>& warnings);

/// NET_NIC_METRIC and NET_IB_SWITCH_METRIC.
std::vector<NetworkSeries> read_network_metrics(const Database& database, const TimeBase& time_base,
                                                std::vector<Warning>& warnings);

// Tables whose rows belong to processes that GPU work, CUDA calls or NVTX ranges have made known.

/// The process of a global id, where the trace has it.
inline ProcessTrace* process_in(const Reading& reading, std::int64_t global_id) {
  if (global_id == no_time) return nullptr;
  return reading.builder.find_process(process_of(global_id));
}

/// Likewise; where the export holds no GPU work, every process that the rows name is known: what hosts did is then all
/// that there is. For tables that name processes of the program only, and once GPU work has been read.
inline ProcessTrace* program_process_in(const Reading& reading, std::int64_t global_id) {
  if (global_id == no_time || !reading.builder.devices().empty()) return process_in(reading, global_id);
  return &reading.builder.process(process_of(global_id));
}

/// Calls `use(process, span, row)` for the rows of known processes whose times can be; what was left out is reported.
template <class Column, class Use>
void for_each_event(const Reading& reading, const char* table, TableScan& scan, const Column& global_id,
                    const Column& start, const Column& end, const Use& use,
                    ProcessTrace* (*find)(const Reading&, std::int64_t) = process_in) {
  TimeFilter filter(reading.time_base, table);
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      ProcessTrace* process = find(reading, global_id[row]);
      if (process == nullptr) continue;
      if (const auto time = filter.accept(start[row], end[row])) use(*process, *time, row);
    }
  });
  filter.report(reading.warnings);
}

}  // namespace nsys_explain::ingest
