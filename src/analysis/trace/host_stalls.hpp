#pragma once

#include <cstdint>
#include <vector>

#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::analysis {

/// Why a host thread did not run its program.
enum class HostStallKind : std::uint8_t {
  profiler,     ///< the profiler flushed buffers, patched code, ...
  module_load,  ///< CUDA loaded or compiled code
  file,         ///< a call into the operating system that reads, writes or maps
  wait,         ///< a call into the operating system that waits for a thread, a descriptor or time
  descheduled   ///< the operating system ran something else on its core
};

/// One span of time that a host thread lost.
struct HostStall {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint32_t thread_id = 0;
  StringIndex name = 0;  ///< e.g. the call; empty for descheduled
  HostStallKind kind = HostStallKind::wait;
};

/// Shorter ones are left out: they come in millions, and do not tell why a rank is late.
inline constexpr Nanoseconds shortest_host_stall_ns = 20'000;

/// Of every thread of the process, sorted by start.
std::vector<HostStall> host_stalls(const Trace& trace, const ProcessTrace& process);

}  // namespace nsys_explain::analysis
