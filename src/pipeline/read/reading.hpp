#pragma once

#include <iosfwd>
#include <optional>
#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/ingest/discovery.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/read/local_traces.hpp"
#include "pipeline/read/unfinished_run.hpp"
#include "pipeline/tool_rank/job.hpp"
#include "pipeline/tool_rank/memory_budget.hpp"
#include "pipeline/tool_rank/phases.hpp"

/// The phase in which each tool rank reads its own traces.
namespace nsys_explain::pipeline {

/// The plan's traces that a tool rank reads.
std::vector<ingest::AssignedTrace> traces_of(int tool_rank, const RunPlan& plan);

/// Whether traces are read where there is a record of them.
TraceAccess trace_access(const JobSpecification& job);

/// Collective: reads this tool rank's traces, from their records where there are any.
std::vector<LocalTrace> read_inputs(const exchange::Communicator& communicator, const JobSpecification& job,
                                    const std::vector<ingest::AssignedTrace>& mine, const ReadSettings& reading,
                                    Phases& phases);

/// Collective: where the steady steps are analysed, all tool ranks agree on which they are; inputs that were read with
/// others are read once more.
void agree_on_steps(const exchange::Communicator& communicator, const std::vector<ingest::AssignedTrace>& mine,
                    const ReadSettings& reading, Phases& phases, std::vector<LocalTrace>& local_traces);

/// Collective: fails on all ranks alike (exchange::AgreedFailure) where the limit leaves no room for the arrivals of
/// all tool ranks, which what comes after reading shares evenly, but for the replay on rank 0.
void prepare_for_arrivals(const exchange::Communicator& communicator, const MemoryBudget& memory,
                          const std::vector<LocalTrace>& local_traces);

/// Collective; nothing where there is no limit.
std::optional<RunFacts::Memory> memory_facts(const exchange::Communicator& communicator, const MemoryBudget& memory);

/// Collective: a run whose shards cannot be written goes on, but its user should know.
void report_unkept(const exchange::Communicator& communicator, const UnfinishedRun& unfinished, std::ostream& problems);

}  // namespace nsys_explain::pipeline
