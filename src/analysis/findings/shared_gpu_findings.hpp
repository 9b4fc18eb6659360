#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// Told, whether it is meant or not; it names nobody.
void add_shared_gpu_finding(const JobReport& report, std::vector<Finding>& findings);

}  // namespace nsys_explain::analysis
