#pragma once

#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

/// What else went on in a process: the operating system, the scheduler, the profiler. These tables stand at the first
/// trace rank of the process; what was not captured has no rows.
namespace nsys_explain::analysis {

/// Table `os_runtime` (as `nsys stats` osrt_sum): calls into the operating system's libraries, by name, nested calls
/// included; outermost_ns leaves those out, so that it counts no time twice. Only calls longer than nsys' threshold are
/// recorded: sums are lower bounds.
Table os_runtime_table(const RankEvents& events);

/// Table `profiler_overhead` by name: what the profiler took, and what CUDA itself did behind the scenes (profiler 0).
/// union_ns counts time only once where rows of one thread overlap.
Table overhead_table(const RankEvents& events);

/// Table `thread_states`: per thread the time on a CPU and off it by state, switches and moves between CPUs, from its
/// first to its last scheduling event.
Table thread_states_table(const RankEvents& events);

}  // namespace nsys_explain::analysis
