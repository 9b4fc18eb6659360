#pragma once

#include <string>
#include <string_view>

#include "nsys_explain/model/comparison.hpp"
#include "report/comparison_text.hpp"

namespace nsys_explain::report {

/// A text from a trace as HTML.
std::string html_text(std::string_view text);

/// Kernels of the current run by time, added up, each with its time in the base under it, as many as reach a share that
/// the reader chooses. Needs no script. Empty where no run tells its kernels.
std::string kernel_waterfall(const Comparison& comparison);
/// Kernels of the base and of the current run under the roof that their GPUs' own metrics draw. Empty where neither has
/// them.
std::string kernel_rooflines(const Comparison& comparison);
/// The rules of the page for both.
std::string waterfall_style();

/// What a dashboard shows first, a column per run and, of two, the change: GPU time, CPU time, what limits, frameworks.
ComparisonSection key_figures_section(const Comparison& comparison);

}  // namespace nsys_explain::report
