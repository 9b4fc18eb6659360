#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/model/report_detail.hpp"
#include "nsys_explain/model/table.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/read/job_ranks.hpp"

namespace nsys_explain::pipeline {

/// Numbers of the collectives of the tables straggler_cases and long_waits, ascending: of the costliest ones, where
/// there are very many.
std::vector<std::int64_t> instances_looked_into(const std::vector<Table>& tables);

/// Collective: heat map and the collectives that the page shows one by one (ReportDetail::collectives), from blocks
/// whose waits are known. `first_instance[c]` is the number of instance 0 of communicator c; `wanted` (rank 0's counts)
/// are numbers of collectives to show besides, ascending. The result is on rank 0; elsewhere it is empty.
ReportDetail gather_detail(const exchange::Communicator& communicator, const CrossRank& cross, const JobRanks& job,
                           std::span<const std::int64_t> first_instance, std::span<const std::int64_t> wanted);

}  // namespace nsys_explain::pipeline
