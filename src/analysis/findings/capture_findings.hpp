#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// Of a job of one trace rank, which nobody can be compared with: the kernel that takes most of its time.
void add_dominant_kernel_finding(const JobReport& report, std::vector<Finding>& findings);

/// Where the capture holds hardly any GPU work: that it does, and all other findings become low ones. What takes long
/// in it is how the program starts, or the profiler.
void judge_short_capture(const JobReport& report, std::vector<Finding>& findings);

}  // namespace nsys_explain::analysis
