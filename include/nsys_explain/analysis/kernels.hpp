#pragma once

#include "nsys_explain/analysis/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

/// What ran on the GPU of one trace rank, summed by kernel.
namespace nsys_explain::analysis {

/// Table `kernels`: one row per demangled name, most time first (ties by name).
Table kernels_table(const RankEvents& events);

}  // namespace nsys_explain::analysis
