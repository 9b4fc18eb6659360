#pragma once

#include <functional>
#include <vector>

#include "model/schema/declaration.hpp"
#include "nsys_explain/model/activity_summary.hpp"

namespace nsys_explain::analysis {

/// Of a joined table with one row for each trace rank and name among those that `counts`; in the order of first rows.
std::vector<PercentSpread> spread_over_ranks(const Table* table, const schema::Text& name, const schema::Real& percent,
                                             const std::function<bool(std::size_t row)>& counts);

}  // namespace nsys_explain::analysis
