#pragma once

#include <span>
#include <vector>

#include "analysis/replay/job_graph.hpp"
#include "nsys_explain/model/report_parts.hpp"

namespace nsys_explain::analysis {

/// From the end of the last activity back to the start of the first: from each piece to what bound its start, which is
/// what it waited for with the least slack; from a collective to its last member. O(length of the path).
///
///     rank 0   [work....]           [all-reduce][adam]     back from the end: adam and the transfer on rank 0, then
///     rank 1   [work..............] [all-reduce]           what its last member did: the launch and the work on rank 1
///
/// The segments' trace ranks are indices. Within a row of kernels the gaps count together, before it.
std::vector<CriticalSegment> find_critical_path(const JobGraph& graph);

/// The path cut at the ends of the steps, which ascend; no_time: of a step that is not known. Steps are indices.
std::vector<CriticalShare> share_by_step(std::span<const CriticalSegment> path, std::span<const Nanoseconds> step_ends);

}  // namespace nsys_explain::analysis
