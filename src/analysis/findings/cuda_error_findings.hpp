#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// `cuda-errors`: CUDA calls that failed (table cuda_errors), most grave ones only, those that end the process apart
/// from those that it outlives; a finding for each status.
void add_cuda_error_findings(const JobReport& report, std::vector<Finding>& findings);

}  // namespace nsys_explain::analysis
