#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nsys_explain/analysis/categories.hpp"
#include "nsys_explain/model/table.hpp"
#include "nsys_explain/pipeline/job.hpp"

/// Tables that compare trace ranks, made on rank 0 of the tool from the joined tables of all of them.
namespace nsys_explain::pipeline {

/// The map that the job asks for: one that comes with the tool, or one from its file. The file is gputrc2graph's JSON:
/// {"ENGINE": {"MODEL": {"PATTERN": "CATEGORY", ...}}}; several maps may stand in it. Throws std::runtime_error or
/// std::invalid_argument: problem, why, what to do.
analysis::CategoryMap read_category_map(const JobSpecification& job);

/// The maps of such a file: name ("ENGINE/MODEL") and ordered rules.
struct NamedRules {
  std::string name;
  std::vector<analysis::CategoryMap::Rule> rules;
};
std::vector<NamedRules> parse_category_file(const std::string& text, const std::string& path);

std::vector<Table> make_job_tables(const std::vector<Table>& rank_tables, const analysis::CategoryMap& categories,
                                   std::optional<double> wall_seconds);

}  // namespace nsys_explain::pipeline
