#pragma once

#include <string>

namespace nsys_explain::serve {

/// The description of the programming interface.
std::string openapi_json();

}  // namespace nsys_explain::serve
