#pragma once

#include <functional>

#include "ingest/cuda_events.hpp"

namespace nsys_explain::ingest {

/// CUDA calls whose backtraces were recorded (CUPTI_ACTIVITY_KIND_RUNTIME, CUDA_CALLCHAINS).
void read_traced_calls(const Reading& reading);

/// Calls into cuBLAS and cuDNN (CUBLAS_EVENTS, CUDNN_EVENTS).
void read_library_calls(const Reading& reading);

/// Calls `use(process, range)` for the calls into MPI of known processes (captured with -t mpi), in no particular
/// order: ranges of the calling thread, whose domain is left to the caller. Adds those that wait,
/// and those that begin a message, to ProcessTrace::mpi_calls.
void read_mpi_calls(const Reading& reading, const std::function<void(ProcessTrace&, const NvtxRange&)>& use);

}  // namespace nsys_explain::ingest
