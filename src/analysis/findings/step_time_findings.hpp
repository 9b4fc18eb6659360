#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// step-time-change: all steps take longer from one on, and nobody who is late from then on explains it.
void add_step_time_finding(const JobReport& report, std::vector<Finding>& findings);

}  // namespace nsys_explain::analysis
