#pragma once

#include <vector>

#include "analysis/tables/nvtx_rows.hpp"
#include "analysis/trace/launches.hpp"

/// Kernels by the NVTX ranges in which they were launched.
namespace nsys_explain::analysis {

/// nvtx_kernels and nvtx_coverage (nvtx.hpp). The groups of the single ranges (`r.names.group_of`) are released on the
/// way: they are not needed after the kernels' surroundings are known.
std::vector<Table> nvtx_kernel_tables(NamedRanges& r, const DeviceLaunches& launches);

}  // namespace nsys_explain::analysis
