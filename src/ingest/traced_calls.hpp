#pragma once

#include "ingest/cuda_events.hpp"

namespace nsys_explain::ingest {

/// CUDA calls whose backtraces were recorded (CUPTI_ACTIVITY_KIND_RUNTIME, CUDA_CALLCHAINS).
void read_traced_calls(const Reading& reading);

/// Calls into cuBLAS and cuDNN (CUBLAS_EVENTS, CUDNN_EVENTS).
void read_library_calls(const Reading& reading);

}  // namespace nsys_explain::ingest
