#pragma once

#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/local_traces.hpp"

namespace nsys_explain::pipeline {

/// Rows of two tables alike, each by trace rank, as one table by trace rank; no trace rank has rows in both.
Table joined_by_trace_rank(const Table& one, const Table& other);

/// Collective: puts the processes without GPU work and the rows of their tables into the report, once everything is
/// concluded from trace ranks: nothing rests on them. Without any trace rank they are all that summaries of the host
/// and facts of the run are about.
void add_host_rows(const exchange::Communicator& communicator, const JobRanks& job,
                   std::vector<LocalTrace>& local_traces, JobReport& report);

}  // namespace nsys_explain::pipeline
