#pragma once

#include <optional>
#include <vector>

#include "analysis/causes/causes.hpp"
#include "analysis/trace/divergence.hpp"
#include "exchange/communicator.hpp"
#include "nsys_explain/model/table.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/local_traces.hpp"

namespace nsys_explain::pipeline {

/// The instances by which one straggler is judged, in order of time.
struct CasesOfStraggler {
  std::int32_t trace_rank = -1;
  std::vector<analysis::StragglerCase> cases;
  analysis::LateIn late_in = analysis::LateIn::whole_run;
};

/// What is to be explained: those who are late, and single delays that much waiting comes from.
struct CollectedCases {
  std::vector<CasesOfStraggler> stragglers;
  std::vector<CasesOfStraggler> long_waits;  ///< one case each, longest wait first: the worst of the run, by whomever
};

/// Collective: for each of those who are late (the first `most_stragglers`), out of each of `case_spans` equal spans
/// of the time in which it was late the instance that it delayed most, with what it and its median peer did before (a
/// peer of its role, of which `roles` tells by index of the trace rank, if one is a member). A transient one was late
/// in its steps, of which report.detail.steps has the times. Instead, for a straggler that is a place of several trace
/// ranks, or where it shows more lateness: the arrival of its (costliest) trace rank with the most work beyond its
/// peers', and peers at the same program position, outside of the straggler's. And the `most_long_waits` delays of
/// the whole run that caused the most waiting: program positions, or, of trace ranks without peers or steps,
/// instances. The same on every tool rank.
///
/// Owners of blocks propose instances; everybody keeps the best of each span; holders of the members' profiles answer.
CollectedCases collect_cases(const exchange::Communicator& communicator, const JobRanks& job, const CrossRank& cross,
                             const std::vector<LocalTrace>& local_traces, const std::vector<std::uint64_t>& roles,
                             const JobReport& report, std::span<Straggler* const> late);

/// The evidence for the causes as tables of the store: `straggler_cases` (one row per collective that was looked at)
/// and `straggler_differences` (one row per straggler and name). They exist, without rows, where nobody is late.
class CaseTables {
 public:
  CaseTables();
  /// `compute`: analysis::compute_cause of them.
  void add_cases(const CasesOfStraggler& of, std::optional<Cause> compute);
  void add_long_wait(const CasesOfStraggler& of, std::optional<Cause> compute);
  void add_differences(std::int32_t straggler, const analysis::Divergence& divergence);
  std::vector<Table> release() { return {std::move(cases_), std::move(differences_), std::move(long_waits_)}; }

 private:
  Table cases_, differences_, long_waits_;
};

}  // namespace nsys_explain::pipeline
