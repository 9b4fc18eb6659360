#pragma once

#include <string>
#include <string_view>

namespace nsys_explain::ingest {

/// A phase map as nsys-llm-explainer reads it, {"PHASE": ["WORDS", "re:PATTERN", ...], ...}, in lines `PHASE PATTERN`:
/// words match anywhere, in whatever case. Other texts stay as they are. Throws std::runtime_error: problem, why it
/// matters, what to do. Patterns are not tried.
std::string phase_map_lines(std::string_view text);

}  // namespace nsys_explain::ingest
