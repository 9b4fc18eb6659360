#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// `memory-growth`: the least device memory in use (table gpu_memory) rises from each eighth of the recorded time to
/// the next, the first one left out, by a hundredth of the peak or more in all. Seven values that know nothing of each
/// other rise all the way once in 7! = 5,040 times.
void add_memory_growth_finding(const JobReport& report, std::vector<Finding>& findings);

}  // namespace nsys_explain::analysis
