#pragma once

#include <optional>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// Compute kernels that take longer beside collectives than alone, where that costs at least 1% of the GPU time (table
/// contended_kernels). Cost: its sum of lost_ns.
std::optional<Finding> find_contention(const JobReport& report);

}  // namespace nsys_explain::analysis
