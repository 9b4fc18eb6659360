#pragma once

#include <functional>

#include "ingest/cuda_events.hpp"

namespace nsys_explain::ingest {

/// Calls `use(process, range)` for the calls into MPI of known processes (captured with -t mpi), in no particular
/// order: ranges of the calling thread, whose domain is left to the caller. Adds those that wait,
/// and those that begin a message, to ProcessTrace::mpi_calls.
void read_mpi_calls(const Reading& reading, const std::function<void(ProcessTrace&, const NvtxRange&)>& use);

}  // namespace nsys_explain::ingest
