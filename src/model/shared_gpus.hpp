#pragma once

#include <map>
#include <span>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain {

/// The trace ranks of each GPU that several of them use, by its UUID. A GPU that the export only presumes is none.
std::map<std::string, std::vector<std::int32_t>> shared_gpus_of(std::span<const TraceRankIdentity> trace_ranks);

/// True where the trace rank has no GPU of its own.
bool shares_its_gpu(const JobReport& report, std::int32_t trace_rank);

}  // namespace nsys_explain
