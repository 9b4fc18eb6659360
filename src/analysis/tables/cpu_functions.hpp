#pragma once

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// Table `cpu_functions`, at the first trace rank of the process (host_calls.hpp).
Table cpu_functions_table(const RankEvents& events);

}  // namespace nsys_explain::analysis
