#pragma once

#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/model/exposed_time.hpp"
#include "nsys_explain/model/table.hpp"
#include "pipeline/read/local_traces.hpp"

namespace nsys_explain::pipeline {

/// Collective: what the exposed communication of all trace ranks was, by trace rank, then operation; on rank 0 only.
/// The paths of the local ranks know their outcomes.
std::vector<ExposedTime> gather_exposed_time(const exchange::Communicator& communicator,
                                             std::vector<LocalTrace>& local_traces);

}  // namespace nsys_explain::pipeline
