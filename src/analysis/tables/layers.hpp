#pragma once

#include "analysis/trace/rank_events.hpp"
#include "analysis/window/steps.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// Table `layers`: repeats of a sequence of compute kernels (name and grid) within the steps of a trace rank
/// (recurrence.hpp), found in the step of median length; summed over the steps that run the same sequence.
/// A layer lasts to the first kernel of the next, the last one to the end of its last kernel. No rows without steps,
/// or where nothing repeats. `steps` are those of `events`, `events.arrivals` of them, too.
Table layers_table(const RankEvents& events, const Steps& steps);

}  // namespace nsys_explain::analysis
