#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/tables/categories.hpp"
#include "nsys_explain/ingest/discovery.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/table.hpp"
#include "pipeline/tool_rank/job.hpp"

/// Tables that compare trace ranks, made on rank 0 of the tool from the joined tables of all of them.
namespace nsys_explain::pipeline {

/// The maps that the job asks for, by the paths of inputs.
class CategoryPlan {
 public:
  /// Throws std::runtime_error or std::invalid_argument: problem, why, what to do.
  explicit CategoryPlan(const JobSpecification& job);

  analysis::RankCategories of(const std::string& input_path) const;
  /// Throws std::runtime_error where a pattern is of none of these inputs: problem, why, what to do.
  void require_inputs(const ingest::MergedDiscovery& found) const;
  /// Names of the maps, the usual one first.
  std::string names() const;

 private:
  struct OfInputs {
    std::string pattern;  ///< of paths, as a shell's
    analysis::CategoryMap map;
    std::optional<double> wall_seconds;
  };
  analysis::CategoryMap usual_;
  std::optional<double> wall_seconds_;
  std::vector<OfInputs> special_;  ///< the first that matches decides
};

/// `trace_ranks` tell which input a trace rank is of.
std::vector<Table> compare_trace_ranks(const std::vector<Table>& rank_tables, const CategoryPlan& categories,
                                       const std::vector<TraceRankIdentity>& trace_ranks);

}  // namespace nsys_explain::pipeline
