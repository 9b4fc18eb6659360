#pragma once

#include <vector>

#include "analysis/compare/run_tables.hpp"

namespace nsys_explain::analysis {

/// Whose own time per step explains that a step of the current run takes `change_ns` longer (or, negative, less long)
/// than one of the base: those whose time outside of exposed communication changed by at least half of that. All trace
/// ranks of a node make the node. Runs are compared rank by rank, so both must have the same ones.
///
/// Example. A step takes 2.0 ms longer. Trace rank 5 computes 1.9 ms longer in it, the others wait 1.9 ms longer: it is
/// trace rank 5, and of what it does longer, the kernels that both runs have.
std::vector<ChangedPlace> find_changed_places(const RunTables& base, const RunTables& current,
                                              const Comparison& comparison, double change_ns);

}  // namespace nsys_explain::analysis
