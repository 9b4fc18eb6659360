#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "nsys_explain/model/timeline.hpp"

namespace nsys_explain::report {

/// Texts of the page are cut there: a mangled name can have thousands of characters.
std::string shortened(const std::string& text);

/// The moments as the page reads them: names once for all, and of each trace rank a row per track and lane, whose
/// starts count from the start before (the first from the window's), so that an event takes some 16 characters.
nlohmann::ordered_json moments_json(const std::vector<Moment>& moments);

}  // namespace nsys_explain::report
