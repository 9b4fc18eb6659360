#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/schema/declaration.hpp"
#include "nsys_explain/model/comparison.hpp"
#include "nsys_explain/model/table.hpp"

/// Figures of one run from the tables of its store. What a store lacks is empty: older stores have fewer tables.
namespace nsys_explain::analysis {

/// The tables of one run, as its store holds them, and what a user calls it.
struct RunTables {
  std::string name;
  std::vector<Table> tables;
  std::string step_source = {};  ///< DelaySummary::step_source; empty: an older store does not tell
};

/// The table, where the run has it with all of these columns.
const Table* table_with(const RunTables& run, const schema::Declaration& declaration,
                        std::initializer_list<std::string_view> columns);

/// The job's time per step: steps end together, so the mean over its ranks is the job's. By step; empty without steps.
std::vector<double> step_times(const RunTables& run);

/// Steps that NVTX ranges mark and those that repetition suggests may hold different amounts of work, and so may two
/// that repetition suggests. Takes the steps from both runs where they cannot be compared, and says why; else empty.
std::optional<std::string> drop_unlike_steps(RunTables& run, RunTables& other);

/// Means over trace ranks, to be seen beside other runs.
RunProfile profile_run(const RunTables& run);

}  // namespace nsys_explain::analysis
