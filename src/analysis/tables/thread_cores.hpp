#pragma once

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// Table `thread_cores`, at the first trace rank of the process (host_calls.hpp): by the scheduler's record where there
/// is one of the thread, else by its CPU samples.
Table thread_cores_table(const RankEvents& events);

}  // namespace nsys_explain::analysis
