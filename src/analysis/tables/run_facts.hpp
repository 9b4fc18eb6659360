#pragma once

#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/table.hpp"

/// What the job ran on and with, by trace rank, and where its trace ranks differ.
namespace nsys_explain::analysis {

/// The table run_facts: a row for each fact of this trace rank. First what the export's metadata tells of host, capture
/// and GPU (ingest/run_facts.hpp), then `framework`: those whose kernels or threads are in the trace, by
/// frameworks.inc.
Table run_facts_table(const RankEvents& events);

/// The facts of all trace ranks, from the joined table.
std::vector<RunFactSummary> summarise_run_facts(const std::vector<Table>& joined);

}  // namespace nsys_explain::analysis
