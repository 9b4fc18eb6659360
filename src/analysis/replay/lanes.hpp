#pragma once

#include <span>

#include "analysis/replay/job_graph.hpp"
#include "nsys_explain/model/report_detail.hpp"

namespace nsys_explain::analysis {

/// What every trace rank did in some steps around that of `moment_ns`: 30 where the trace ranks are few, 8 where they
/// are a thousand. Where no steps are known, in the whole run. `trace_ranks`: the numbers, by index of the graph.
///
///     GPU        [compute]    [compute..]      A row of kernels is busy for gpu_ns + copy_ns of its span, evenly.
///     collective      [wait|transfer]          What compute leaves of it is waiting up to the latest enter.
///
/// Shares of a bin are rounded to thirds together, so that they never come to more than the bin. O(pieces x steps).
RankLanes lanes_of(const JobGraph& graph, std::span<const std::int32_t> trace_ranks, const StepStarts& steps,
                   Nanoseconds moment_ns);

}  // namespace nsys_explain::analysis
