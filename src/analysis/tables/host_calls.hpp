#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

/// What the host's CUDA calls cost. Calls belong to a process: tables of calls stand at the first trace rank of the
/// process, so that sums over trace ranks count each call once.
namespace nsys_explain::analysis {

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

}  // namespace nsys_explain::analysis
