#pragma once

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// Table `contended_kernels`: compute kernels alike (name, grid, block), alone and beside collectives (contention.hpp),
/// what is lost most first.
Table contended_kernels_table(const RankEvents& events);

}  // namespace nsys_explain::analysis
