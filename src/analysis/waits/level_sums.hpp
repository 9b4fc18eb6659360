#pragma once

#include <span>

#include "analysis/waits/levels.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// Table `level_sums`: what the trace ranks of each place of each grouping come to, by grouping, then by the lowest
/// trace rank of the place. A grouping that has a place for each trace rank says no more than the table `ranks` and is
/// left out. `ranks` in the order of Grouping::place_of_rank.
Table level_sums_table(std::span<const RankSummary> ranks, std::span<const Grouping> groupings);

}  // namespace nsys_explain::analysis
