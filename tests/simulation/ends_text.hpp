#pragma once

#include <string_view>

namespace nsys_explain::synth {

/// ends.json, as the build found it.
extern const std::string_view ends_text;

}  // namespace nsys_explain::synth
