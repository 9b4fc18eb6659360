#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "analysis/trace/rank_events.hpp"

namespace nsys_explain::analysis {

/// When the host launched a kernel; its own start where the call is not in the trace.
inline Nanoseconds launch_time_ns(const RankEvents& events, const Kernel& kernel) {
  const std::uint32_t call = events.launches.number_of(kernel.correlation_id, kernel.start_ns);
  return call == LaunchIndex::no_call ? kernel.start_ns : events.process.api_calls[call].start_ns;
}

/// What the host launched between two communication kernels: the program's work for the second one.
struct LaunchSegment {
  Nanoseconds start_ns = 0;  ///< launch of the previous communication kernel; of the first kernel, where there is none
  Nanoseconds end_ns = 0;    ///< launch of this one
  std::span<const std::uint32_t> kernels;  ///< compute kernels by number, in launch order; until `use` returns
};

/// Calls `use(communication kernel, what was launched before it)` for every communication kernel of the device in the
/// order in which kernels were launched, which is the same on every rank that runs the same program, while the order in
/// which they run depends on who waits for whom.
void for_each_launch_segment(const RankEvents& events,
                             const std::function<void(const Kernel&, const LaunchSegment&)>& use);

/// By kernel kind of the device: 64-bit hash of name, grid and block.
std::vector<std::uint64_t> hash_kernel_kinds(const RankEvents& events);

}  // namespace nsys_explain::analysis
