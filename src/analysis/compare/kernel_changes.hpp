#pragma once

#include <optional>
#include <string>

#include "analysis/compare/run_tables.hpp"

namespace nsys_explain::analysis {

/// Comparison::kernel_time_ratio.
std::optional<double> compare_kernel_times(const RunTables& base, const RunTables& current);

/// A sentence where compute kernels of the base are gone, and fewer and longer ones came that take their place: their
/// time is between a quarter and five quarters of what those gone took, as often as kernels of both runs are executed.
/// What kernels compute, no trace tells. Nothing where they take less than a hundredth of the compute time.
std::optional<std::string> fused_kernels_note(const RunTables& base, const RunTables& current);

}  // namespace nsys_explain::analysis
