#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// What shares a fate: for each trace rank (by index) the name of its place on one level.
struct Grouping {
  Level level = Level::gpu;
  std::vector<std::string> place_of_rank;
};

/// The grouping of a level; null where there is none.
const Grouping* find_grouping(std::span<const Grouping> groupings, Level level);

/// One place with its trace ranks (indices, ascending).
struct Place {
  Level level = Level::gpu;
  std::string name;
  std::vector<std::size_t> ranks;
  std::vector<PlaceName> also;  ///< further places with just these trace ranks
};

/// Every GPU by itself, then the places of each grouping that hold more than one trace rank but not all, by name. Of
/// places with the same trace ranks the first is listed, with the names of the others; for a GPU only the pipeline
/// stage that it is counts.
std::vector<Place> list_places(std::size_t ranks, std::span<const Grouping> groupings);

/// Explains the lateness of each trace rank as a sum of what its places add, none of it negative: minimal
/// sum |x_r - sum of b_p over its places p| + sum b_p / 2, built up greedily, so that one node is cheaper than its
/// eight GPUs, and one GPU cheaper than its node. Returns the parts b_p, parallel to `places`; what is below a quarter
/// of the part of another of the same trace rank's places, or a fiftieth of the largest, is noise and becomes 0.
std::vector<Nanoseconds> fit_places(std::span<const Nanoseconds> lateness_ns, std::span<const Place> places);

/// Table `level_sums`: what the trace ranks of each place of each grouping come to, by grouping, then by the lowest
/// trace rank of the place. A grouping that has a place for each trace rank says no more than the table `ranks` and is
/// left out. `ranks` in the order of Grouping::place_of_rank.
Table level_sums_table(std::span<const RankSummary> ranks, std::span<const Grouping> groupings);

}  // namespace nsys_explain::analysis
