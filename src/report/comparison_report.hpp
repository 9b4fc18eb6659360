#pragma once

#include <string>

#include "nsys_explain/model/comparison.hpp"

/// Pure functions from a comparison of runs to text.
namespace nsys_explain::report {

std::string comparison_to_json(const Comparison& comparison);
std::string comparison_to_markdown(const Comparison& comparison);
/// One self-contained page without scripts.
std::string comparison_to_html(const Comparison& comparison);
/// The verdict in one or two lines.
std::string comparison_summary(const Comparison& comparison);

}  // namespace nsys_explain::report
