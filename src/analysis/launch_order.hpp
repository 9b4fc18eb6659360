#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nsys_explain/analysis/rank_events.hpp"

namespace nsys_explain::analysis {

/// A kernel and when the host launched it; its own start where the call is not in the trace.
struct LaunchedKernel {
  const Kernel* kernel = nullptr;
  Nanoseconds launch_ns = 0;
};

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

  /// What was launched before the communication kernel that starts at `enter_ns`; empty where there is none.
  std::optional<LaunchSegment> before(Nanoseconds enter_ns) const;

 private:
  struct Communication {
    Nanoseconds enter_ns, previous_launch_ns, launch_ns;
    std::size_t first, last;  ///< its segment: [first, last) of kernels_
  };
  std::vector<LaunchedKernel> kernels_;        ///< compute only
  std::vector<Communication> communications_;  ///< sorted by enter
};

/// 64-bit hashes of kernels: of name, grid and block. Names are hashed once.
class KernelHashes {
 public:
  explicit KernelHashes(const Trace& trace) : trace_(trace), of_name_(trace.strings.size(), 0) {}
  std::uint64_t of(const Kernel& kernel);

 private:
  const Trace& trace_;
  std::vector<std::uint64_t> of_name_;  ///< 0: not yet known
};

}  // namespace nsys_explain::analysis
