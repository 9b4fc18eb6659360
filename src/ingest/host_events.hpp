#pragma once

#include <string_view>

#include "ingest/cuda_events.hpp"

/// What the host did besides CUDA calls. Captures trace the whole machine; only processes that are in the trace
/// already, because they have CUDA or NVTX events, get rows: read these last.
namespace nsys_explain::ingest {

/// CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, _CUDA_EVENT, CUDA_GPU_MEMORY_USAGE_EVENTS and CUDA_GRAPH_NODE_EVENTS.
void read_synchronization(const Reading& reading);

/// OSRT_API, PROFILER_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD and SCHED_EVENTS.
void read_host_events(const Reading& reading);

/// Before nsys 2025.5 only the name says what kind of overhead a row is ("CUPTI: Buffer flush").
OverheadKind overhead_kind_of_name(std::string_view name);

}  // namespace nsys_explain::ingest
