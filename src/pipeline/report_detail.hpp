#pragma once

#include <cstdint>
#include <span>

#include "cross_rank.hpp"
#include "job_ranks.hpp"
#include "nsys_explain/exchange/communicator.hpp"
#include "nsys_explain/model/report_detail.hpp"

namespace nsys_explain::pipeline {

/// Collective: heat map and costliest collectives, from blocks whose waits are known. `first_instance[c]` is the number
/// of instance 0 of communicator c. The result is on rank 0; elsewhere it is empty.
ReportDetail gather_detail(const exchange::Communicator& communicator, const CrossRank& cross, const JobRanks& job,
                           std::span<const std::int64_t> first_instance);

}  // namespace nsys_explain::pipeline
