#pragma once

#include "ingest/cuda_events.hpp"

namespace nsys_explain::ingest {

/// CPU samples of the known processes, each with the frame of its call chain that tells most (COMPOSITE_EVENTS,
/// SAMPLING_CALLCHAINS).
void read_cpu_samples(const Reading& reading);

}  // namespace nsys_explain::ingest
