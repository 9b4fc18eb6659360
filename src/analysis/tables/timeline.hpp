#pragma once

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/timeline.hpp"

namespace nsys_explain::analysis {

/// Everything that kept the device of one trace rank busy, and its NVLink traffic in percent of the peak where it was
/// sampled (a value where it changes). Times are trace time; trace_rank is not set. No two events of one stream and
/// lane overlap.
Timeline timeline_of(const RankEvents& events);

}  // namespace nsys_explain::analysis
