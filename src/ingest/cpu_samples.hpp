#pragma once

#include <string_view>

#include "ingest/cuda_events.hpp"

namespace nsys_explain::ingest {

/// CPU samples of the known processes, each with the frame of its call chain that tells most (COMPOSITE_EVENTS,
/// SAMPLING_CALLCHAINS).
void read_cpu_samples(const Reading& reading);

/// Of a library, without its directories.
std::string_view file_name(std::string_view path);
/// Its frames tell nothing of the program.
bool is_profilers_library(std::string_view path);

}  // namespace nsys_explain::ingest
