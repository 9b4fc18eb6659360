#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// How far the traces tell where GPU work comes from, and GPUs that ran below their clock: from the tables
/// nvtx_coverage and gpu_throttling.
void add_attribution_findings(const JobReport& report, std::vector<Finding>& findings);

}  // namespace nsys_explain::analysis
