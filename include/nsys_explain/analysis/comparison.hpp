#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nsys_explain/model/comparison.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// The tables of one run, as its store holds them, and what a user calls it.
struct RunTables {
  std::string name;
  std::vector<Table> tables;
};

/// Current over base. Circular block bootstrap of both series (Politis and Romano 1992) with blocks of about n^(1/3)
/// consecutive samples, so that drifts and periodic slow steps widen the interval as they should; deterministic.
/// Empty where a series has fewer than 8 samples or a mean that is not positive.
std::optional<RatioEstimate> bootstrap_ratio(const std::vector<double>& base, const std::vector<double>& current);

struct ComparisonOptions {
  double tolerance = 0.01;  ///< relative changes up to this are never called a change
};

/// Compares the last base with the current run; earlier bases widen the noise by how much they differ among themselves.
/// `bases` is not empty.
Comparison compare_runs(const std::vector<RunTables>& bases, const RunTables& current,
                        const ComparisonOptions& options);

}  // namespace nsys_explain::analysis
