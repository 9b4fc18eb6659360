#pragma once

#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

/// How kernels of one device were launched.
namespace nsys_explain::analysis {

/// Tables
/// - `kernel_launches` (as `nsys stats` cuda_kern_exec_sum) by thread, call and kernel: API time of the call, queue
/// time
///   from the end of the call to the start of the kernel (left out where the kernel started before the call returned;
///   queue_count counts the others), kernel time, and total time from the start of the call to the later of both ends.
///   Kernels of one graph launch each count with that call; kernels whose call is not in the trace are left out;
/// - `launch_latency`: from the start of the launching call to the start of the kernel, in buckets of a quarter
/// doubling
///   (only buckets that occur);
/// - `launch_storm`, one row where there are kernels: launches per second of the window of kernels, median, p90 and p99
///   of their durations, shares shorter than 5, 10 and 20 us. storm is 1 from 50,000 launches per second with a median
///   of at most 10 us, or from 100,000 with at most 20 us (the limits of nsys-llm-explainer).
std::vector<Table> launch_tables(const RankEvents& events);

}  // namespace nsys_explain::analysis
