#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/tables/categories.hpp"
#include "nsys_explain/model/table.hpp"
#include "pipeline/run/job.hpp"

/// Tables that compare trace ranks, made on rank 0 of the tool from the joined tables of all of them.
namespace nsys_explain::pipeline {

/// The map that the job asks for: one that comes with the tool, or one from its file. Throws
/// std::runtime_error or std::invalid_argument: problem, why, what to do.
analysis::CategoryMap read_category_map(const JobSpecification& job);

std::vector<Table> compare_trace_ranks(const std::vector<Table>& rank_tables, const analysis::CategoryMap& categories,
                                       std::optional<double> wall_seconds);

}  // namespace nsys_explain::pipeline
