#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// The compute kernel, by name, that takes most time over all trace ranks.
struct HeaviestKernel {
  std::string name;
  Nanoseconds total_ns = 0;
  std::int64_t count = 0;
  double share = 0;  ///< of the windows of all trace ranks
};

/// Empty where no compute kernel ran.
std::optional<HeaviestKernel> heaviest_kernel(const JobReport& report);

/// Where the capture holds hardly any GPU work: that it does, and all other findings become low ones. What takes long
/// in it is how the program starts, or the profiler.
void judge_short_capture(const JobReport& report, std::vector<Finding>& findings);

}  // namespace nsys_explain::analysis
