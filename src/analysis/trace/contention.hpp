#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "analysis/statistics/lag_correlation.hpp"
#include "analysis/trace/rank_events.hpp"

namespace nsys_explain::analysis {

/// Kernels of one name, grid and block, in the middle.
struct ContendedKernels {
  StringIndex name = 0;  ///< demangled
  std::int64_t alone = 0, beside = 0;
  Nanoseconds alone_ns = 0, beside_ns = 0;  ///< lower medians of those alone, and all the time beside
  Nanoseconds time_beside_ns = 0;           ///< of all of them, also those that are beside in part

  Nanoseconds lost_ns() const {
    return beside_ns <= alone_ns ? 0 : time_beside_ns - time_beside_ns * alone_ns / beside_ns;
  }
};

/// Those of which four and more ran alone, and four and more beside collectives, by first occurrence.
std::vector<ContendedKernels> contended_kernels(const RankEvents& events);

/// What kernels of a trace rank take longer for collectives that run beside them: these hold multiprocessors and use
/// memory, be it while they wait. Kernels alike (name, grid, block) are compared alone and beside:
///
///     40 times alone 100 us each, 40 times beside 125 us each:  a fifth of the time beside is lost
class Contention {
 public:
  explicit Contention(const RankEvents& events);

  /// Of the time that kernels run beside collectives; 0 where nothing tells.
  double lost_share() const { return lost_share_; }
  /// Quick where it lies near that which was asked for before.
  Nanoseconds lost_within(Nanoseconds start_ns, Nanoseconds end_ns) {
    if (lost_share_ == 0) return 0;
    return std::llround(lost_share_ * static_cast<double>(beside_.within(start_ns, end_ns, near_)));
  }

 private:
  CoveredTime beside_;
  double lost_share_ = 0;
  std::size_t near_ = 0;
};

}  // namespace nsys_explain::analysis
