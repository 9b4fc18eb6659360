#pragma once

#include <string_view>

/// The page around the data of report.html, made from src/report/html at build time. Empty where the tool was built
/// without npm.
namespace nsys_explain::report {

std::string_view page_before_data();
std::string_view page_after_data();

}  // namespace nsys_explain::report
