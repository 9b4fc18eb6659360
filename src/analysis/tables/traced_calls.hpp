#pragma once

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

/// Who makes slow CUDA calls, and what libraries of CUDA are asked for. Both stand at the first trace rank of the
/// process (host_calls.hpp).
namespace nsys_explain::analysis {

/// Table `call_stacks`: the 50 places of the program whose CUDA calls took most time, as far as backtraces were
/// recorded (nsys records those of calls longer than its threshold).
Table call_stacks_table(const RankEvents& events);

/// Table `library_calls`, calls within others included.
Table library_calls_table(const RankEvents& events);

}  // namespace nsys_explain::analysis
