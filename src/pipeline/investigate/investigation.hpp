#pragma once

#include <span>

#include "analysis/causes/causes.hpp"
#include "analysis/verdict/job_delays.hpp"
#include "exchange/communicator.hpp"
#include "nsys_explain/ingest/discovery.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/local_traces.hpp"

namespace nsys_explain::pipeline {

/// What the investigation looks at, besides the report with its stragglers.
struct Inquiry {
  std::span<const ingest::AssignedTrace> inputs;
  const ReadSettings& reading;  ///< as they were read the first time
  const JobRanks& job;
  const CrossRank& cross;
  const std::vector<LocalTrace>& local_traces;
  const analysis::JobDelays& delays;
};

/// What was analysed of an input (LocalTrace::windows).
const analysis::ProcessWindows& windows_of(const Inquiry& inquiry, const std::string& input);

/// Collective: why the report's stragglers are late, and, where a few collectives hold much of the waiting that no
/// straggler explains, why these waits were long. Gives each straggler its cause with evidence, and the report its long
/// waits and the tables `straggler_cases`, `straggler_differences` and `long_waits`; the same on every tool rank.
///
/// The profiles of the collectives that each delayed most tell what kind of work took longer. Then the last arriver's
/// trace and that of a median peer are read again for the names of what differed; a trace that cannot be read a second
/// time leaves the verdict to the profiles. Nothing is read again where nobody is late.
/// `saved` is collective.
void investigate_stragglers(const exchange::Communicator& communicator, const Inquiry& inquiry,
                            const analysis::SavedByRank& saved, JobReport& report);

}  // namespace nsys_explain::pipeline
