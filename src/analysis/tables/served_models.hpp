#pragma once

#include <string_view>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// Table served_models of what a Triton server writes at /metrics (counters nv_inference_..., sums in microseconds). Of
/// a text with several scrapes each counter is its last value less its first one; it is its last value where the text
/// has one, or the server began anew. Counters of several GPUs are added. Without rows where the text is something
/// else.
///
///     nv_inference_request_success{model="bert",version="1"} 1200
Table served_models_table(std::string_view text);

}  // namespace nsys_explain::analysis
