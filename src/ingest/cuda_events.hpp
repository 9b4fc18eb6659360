#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ingest/database.hpp"
#include "ingest/string_table.hpp"
#include "ingest/trace_builder.hpp"
#include "ingest/trace_time.hpp"
#include "nsys_explain/model/diagnostic.hpp"

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

}  // namespace nsys_explain::ingest
