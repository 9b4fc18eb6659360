#pragma once

#include <string>
#include <string_view>

namespace nsys_explain::ingest {

/// A file of requests as CSV: what is CSV stays as it is; the JSON that vLLM's and SGLang's serving benchmarks write
/// with details (lists `input_lens`, `output_lens`, `ttfts`, `itls`, `start_times`, `errors`, and `duration`) becomes a
/// line per request. Throws std::runtime_error: problem, why it matters, what to do.
std::string request_rows(std::string_view text);

}  // namespace nsys_explain::ingest
