#pragma once

#include <string>

#include "analysis/trace/divergence.hpp"
#include "nsys_explain/model/job_report.hpp"

/// What a straggler did differently, by name.
namespace nsys_explain::analysis {

/// "12 in 3.400 ms", or "none". `count` may be a mean.
std::string executions_text(double count, double total_ns);

/// True of the causes that lie in what its GPU computes.
bool is_on_gpu(Cause cause);

/// The NVTX range that the straggler's host was in for at least half of `more_ns`, alone or longer than its peer, and
/// longer than in all others together; empty: none.
std::string range_of_host(const Divergence& divergence, Nanoseconds more_ns);

/// Straggler::host_was_in. What the program wrote down comes first. `more_ns`: of the part, in all of the divergence's
/// cases.
std::string host_was_in(const Divergence& divergence, Cause cause, WorkPart part, Nanoseconds more_ns);

/// The largest differences that bear on the cause, in words; empty where there are none.
std::string largest_differences(const Divergence& divergence, Cause cause);

}  // namespace nsys_explain::analysis
