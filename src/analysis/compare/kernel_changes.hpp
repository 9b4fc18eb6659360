#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/compare/run_tables.hpp"

namespace nsys_explain::analysis {

/// Comparison::kernel_time_ratio.
std::optional<double> compare_kernel_times(const RunTables& base, const RunTables& current);

/// A sentence where compute kernels of the base are gone, and fewer and longer ones came that take their place: their
/// time is between a quarter and five quarters of what those gone took, as often as kernels of both runs are executed.
/// What kernels compute, no trace tells. Nothing where they take less than a hundredth of the compute time.
std::optional<std::string> fused_kernels_note(const RunTables& base, const RunTables& current);

/// Whose own time per step explains that a step of the current run takes `change_ns` longer (or, negative, less long)
/// than one of the base: those whose time outside of exposed communication changed by at least half of that. All trace
/// ranks of a node make the node. Runs are compared rank by rank, so both must have the same ones.
///
/// Example. A step takes 2.0 ms longer. Trace rank 5 computes 1.9 ms longer in it, the others wait 1.9 ms longer: it is
/// trace rank 5, and of what it does longer, the kernels that both runs have.
std::vector<ChangedPlace> find_changed_places(const RunTables& base, const RunTables& current,
                                              const Comparison& comparison, double change_ns);

}  // namespace nsys_explain::analysis
