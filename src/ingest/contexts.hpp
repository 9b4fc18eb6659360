#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace nsys_explain::ingest {

/// How many trace ranks an export can hold at most: pairs of process and device with a CUDA context. Reads no event.
/// Nothing where the export does not list contexts (many do not), or cannot be read.
std::optional<std::int64_t> most_trace_ranks(const std::string& path);

}  // namespace nsys_explain::ingest
