#pragma once

#include <string>
#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/ingest/discovery.hpp"
#include "pipeline/read/unfinished_run.hpp"
#include "pipeline/tool_rank/job.hpp"
#include "pipeline/tool_rank/phases.hpp"
#include "pipeline/tool_rank/user_options.hpp"

namespace nsys_explain::pipeline {

/// The name of this host; "unknown-host" where it has none.
std::string host_name();

/// Collective: which traces the run reads, who reads which, and the epoch that a window of time needs. `hosts` by tool
/// rank.
RunPlan find_inputs(Phases& phases, const exchange::Communicator& communicator, const JobSpecification& job,
                    const UserOptions& options, const std::vector<std::string>& hosts);

/// Collective: before anything is read, fails (exchange::AgreedFailure) where the inputs cannot hold so many trace
/// ranks. Exports that do not tell how many they hold are given the benefit of the doubt.
void require_ranks(Phases& phases, const exchange::Communicator& communicator, std::int32_t required,
                   const ingest::MergedDiscovery& discovery);

/// Collective: the inputs of a plan given to the tool ranks of this run: each to one that sees the file as the plan
/// knows it, where any does, so that it can be read again; loads are levelled by size.
void assign_inputs(const exchange::Communicator& communicator, const JobSpecification& job, RunPlan& plan);

}  // namespace nsys_explain::pipeline
