#pragma once

#include <string>
#include <vector>

#include "model/rename.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// How two tables of one name are laid beside each other.
struct DifferenceRequest {
  std::vector<std::string> by;      ///< columns that tell rows apart; empty: `trace_rank` and all columns of text
  std::vector<Rename> renames;      ///< done to texts of these, in turn, before rows are compared
  std::vector<std::string> values;  ///< columns to compare; empty: all others that are numbers
};

/// Rows with equal keys are one row: integers are summed, of reals the mean is taken. The table has the keys, `in`
/// (both, before or after), and of each value `X_before`, `X_after` and `X_change` (after - before; what is not there
/// counts as 0, of reals nan). Largest change of the first value first, then by key. Throws std::invalid_argument where
/// a column is missing in one of them or is no number, or nothing tells rows apart: problem, why, what to do.
Table table_difference(const Table& before, const Table& after, const DifferenceRequest& request);

}  // namespace nsys_explain::analysis
