#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nsys_explain/analysis/rank_events.hpp"

namespace nsys_explain::analysis {

/// A kernel and the call that launched it, by their numbers in device and process: a device has millions.
struct LaunchedKernel {
  std::uint32_t kernel = 0;
  std::uint32_t call = no_call;
  static constexpr std::uint32_t no_call = LaunchIndex::no_call;  ///< not in the trace
};

/// When the host launched it; its own start where the call is not in the trace.
inline Nanoseconds launch_time_ns(const RankEvents& events, const LaunchedKernel& launched) {
  return launched.call == LaunchedKernel::no_call ? events.device.kernels[launched.kernel].start_ns
                                                  : events.process.api_calls[launched.call].start_ns;
}

/// What the host launched between two communication kernels: the program's work for the second one.
struct LaunchSegment {
  Nanoseconds start_ns = 0;  ///< launch of the previous communication kernel; of the first kernel, where there is none
  Nanoseconds end_ns = 0;    ///< launch of this one
  std::span<const LaunchedKernel> kernels;  ///< compute kernels, in launch order
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
  std::vector<LaunchedKernel> kernels_;        ///< compute only, by launch
  std::vector<Communication> communications_;  ///< sorted by enter
};

/// By kernel kind of the device: 64-bit hash of name, grid and block.
std::vector<std::uint64_t> hash_kernel_kinds(const RankEvents& events);

}  // namespace nsys_explain::analysis
