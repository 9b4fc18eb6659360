#pragma once

#include "model/schema/declaration.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/comparison.hpp"
#include "nsys_explain/model/table.hpp"

/// Runs of a job against each other.
namespace nsys_explain::analysis {

// Figures of one run from the tables of its store. What a store lacks is empty: older stores have fewer tables.

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

/// Comparison::kernel_time_ratio.
std::optional<double> compare_kernel_times(const RunTables& base, const RunTables& current);

/// A sentence where compute kernels of the base are gone, and fewer and longer ones came that take their place: their
/// time is between a quarter and five quarters of what those gone took, as often as kernels of both runs are executed.
/// What kernels compute, no trace tells. Nothing where they take less than a hundredth of the compute time.
std::optional<std::string> fused_kernels_note(const RunTables& base, const RunTables& current);

/// Whose own time per step explains that a step of the current run takes `change_ns` longer (or, negative, less long)
/// than one of the base: those whose time outside of exposed communication changed by at least half of that. All trace
/// ranks of a node make the node. Runs are compared rank by rank, so both must have the same ones.
///
/// Example. A step takes 2.0 ms longer. Trace rank 5 computes 1.9 ms longer in it, the others wait 1.9 ms longer: it is
/// trace rank 5, and of what it does longer, the kernels that both runs have.
std::vector<ChangedPlace> find_changed_places(const RunTables& base, const RunTables& current,
                                              const Comparison& comparison, double change_ns);

/// How every figure that runs are compared by went from the oldest run to the newest; empty for fewer than three runs.
/// A trend is an order that chance hardly makes (Kendall 1938: concordant less discordant pairs, exact distribution
/// without ties, two-sided, at 1% over all figures together), of more than `tolerance` from one end to the other by the
/// median of the slopes of all pairs (Sen 1968).
std::vector<Trend> find_trends(const Comparison& comparison, double tolerance);

/// Two-sided p-value of a sequence under the hypothesis that all orders are equally likely; equal values count for
/// neither direction, which errs on the safe side. 1 for fewer than two values.
double kendall_p_value(std::span<const double> values);

struct ComparisonOptions {
  double tolerance = 0.01;    ///< relative changes up to this are never called a change
  bool side_by_side = false;  ///< different programs: nothing is judged
  /// One entry per run, the bases first; empty: not given.
  std::vector<double> tokens, tokens_per_second;
};

/// Compares the last base with the current run; earlier bases widen the noise by how much they differ among themselves.
/// `bases` is not empty.
Comparison compare_runs(std::vector<RunTables> bases, RunTables current, const ComparisonOptions& options);

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
