#pragma once

#include <vector>

#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/table.hpp"
#include "pipeline/read/job_ranks.hpp"

namespace nsys_explain::pipeline {

/// The trace ranks that launched kernels, and whose process has no NVTX range but NCCL's, where kernels of others lie
/// in ranges (table nvtx_coverage); nothing where there are none. Not those of `job.without_ranges`, which their inputs
/// tell of, nor those with ranges beside their kernels, which the finding low-nvtx-coverage names.
std::vector<Warning> ranks_without_ranges(const std::vector<Table>& tables, const JobRanks& job);

}  // namespace nsys_explain::pipeline
