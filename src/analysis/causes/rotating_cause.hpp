#pragma once

#include "analysis/verdict/job_delays.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// Why now one trace rank is late, now another.
struct RotatingCause {
  Cause cause = Cause::unknown;
  double share = 0;  ///< of all caused waits, that this cause holds
};

/// By rank and bin of steps, what a rank computes more than the (lower) median of its role in that bin, over what it
/// took longer there, 0 to 1, weighed by the waits that it caused. uneven_work where at least half of the waiting comes
/// with more work (each kernel taken as long as those of its name, grid and block are on average); else slow_kernel
/// where half of it comes with longer kernels of any kind; else unknown.
RotatingCause rotating_cause(const JobDelays& delays);

}  // namespace nsys_explain::analysis
