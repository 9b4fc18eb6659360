#pragma once

#include <optional>
#include <vector>

#include "analysis/compare/run_tables.hpp"
#include "nsys_explain/model/comparison.hpp"

namespace nsys_explain::analysis {

struct ComparisonOptions {
  double tolerance = 0.01;    ///< relative changes up to this are never called a change
  bool side_by_side = false;  ///< different programs: nothing is judged
  /// One entry per run, the bases first; empty: not given.
  std::vector<double> tokens, tokens_per_second;
};

/// Compares the last base with the current run; earlier bases widen the noise by how much they differ among themselves.
/// `bases` is not empty.
Comparison compare_runs(std::vector<RunTables> bases, RunTables current, const ComparisonOptions& options);

}  // namespace nsys_explain::analysis
