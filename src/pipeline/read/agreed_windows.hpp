#pragma once

#include <vector>

#include "exchange/communicator.hpp"
#include "pipeline/read/local_traces.hpp"

namespace nsys_explain::pipeline {

/// Collective: which part of each process all tool ranks analyse (analysis::common_windows). Returns the inputs of this
/// tool rank that were read with another one; they must be read once more. Lets go of LocalTrace::recorded_steps.
AgreedWindows agree_on_windows(const exchange::Communicator& communicator, std::vector<LocalTrace>& local_traces);

}  // namespace nsys_explain::pipeline
