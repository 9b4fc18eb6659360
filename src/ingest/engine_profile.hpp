#pragma once

#include <string_view>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain::ingest {

/// Table engine_layers of what trtexec --exportProfile writes: [{"count": N}, {"name": ..., "timeMs": ..., "averageMs":
/// ..., "medianMs": ...}, ...] (class Profiler of TensorRT's samples). Throws std::runtime_error: problem, why
/// it matters, what to do.
Table engine_layers(std::string_view json);

}  // namespace nsys_explain::ingest
