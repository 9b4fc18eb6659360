#pragma once

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "nsys_explain/analysis/rank_events.hpp"

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
  std::span<const std::uint32_t> kernels;  ///< compute kernels by number, in launch order
};

/// The kernels of one device in the order in which they were launched, which is the same on every rank that runs the
/// same program, while the order in which they run depends on who waits for whom.
class LaunchOrder {
 public:
  explicit LaunchOrder(const RankEvents& events);

  /// What was launched before the communication kernel that starts at `enter_ns`, of several that start at once the
  /// one after `which` others; empty where there is none.
  std::optional<LaunchSegment> before(Nanoseconds enter_ns, std::size_t which = 0) const;

 private:
  struct Communication {
    Nanoseconds enter_ns, previous_launch_ns, launch_ns;
    std::size_t first, last;  ///< its segment: [first, last) of kernels_
  };
  std::pmr::vector<std::uint32_t> kernels_;    ///< compute only, by launch: numbers, for a device has millions
  std::vector<Communication> communications_;  ///< sorted by enter
};

/// By kernel kind of the device: 64-bit hash of name, grid and block.
std::vector<std::uint64_t> hash_kernel_kinds(const RankEvents& events);

}  // namespace nsys_explain::analysis
