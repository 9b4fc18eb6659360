#pragma once

#include <functional>

#include "ingest/cuda_events.hpp"

namespace nsys_explain::ingest {

/// Calls `use(process, range)` for the calls into MPI of known processes (captured with -t mpi), in no particular
/// order. They are ranges of the calling thread; their domain is left to the caller.
void for_each_mpi_call(const Reading& reading, const std::function<void(ProcessTrace&, const NvtxRange&)>& use);

}  // namespace nsys_explain::ingest
