#pragma once

#include <cstddef>
#include <limits>

#include "nsys_explain/model/comparison.hpp"

/// What the outputs of a comparison say.
namespace nsys_explain::report {

// What the Markdown and the HTML of a comparison say in the same words.

/// "-" where there is none.
std::string time_of(const std::optional<double>& value_ns);

std::string change_text(const Change& change);
std::string headline_text(const Comparison& comparison);
/// Who takes longer or less long by itself, and what of it; empty where nobody's own time explains the change.
std::string places_text(const Comparison& comparison);
/// The first finding about what only the current run has, and about what only the base had; empty where there is
/// neither.
std::string new_finding_text(const Comparison& comparison);

/// Which parts of a trace rank's time changed, most first, and whether kernels changed in speed or in number: also
/// where nothing tells whether more than chance would change. Empty where the runs do not tell.
std::string parts_text(const Comparison& comparison);
/// What of these three there is, in this order: what a reader wants to know after the headline.
std::vector<std::string> explanation_texts(const Comparison& comparison);
/// A part of compare.md and of compare.html.
struct ComparisonSection {
  std::string title, note = {};  ///< note: a sentence below the title
  std::vector<std::string> items = {};
  /// A table of plain texts. The first column holds names; so do the titles of the `run_columns` after it.
  std::vector<std::string> titles = {};
  std::vector<std::vector<std::string>> rows = {};
  std::size_t run_columns = 0;
  std::size_t most = std::numeric_limits<std::size_t>::max();  ///< rows in compare.md
  enum class Picture { none, categories, trends } picture = Picture::none;
};

/// What the reports of both runs found; the runs; their GPU time by category; trends; changes by topic. Those that
/// there are.
std::vector<ComparisonSection> comparison_sections(const Comparison& comparison);

/// What is said of the direction of a trend.
std::string trend_text(const Trend& trend);

/// Every category of any run, the one with the most time over all runs first.
std::vector<std::string> category_names(const Comparison& comparison);
/// Time of a category in a run by the comparison's basis; 0 where it has none.
double category_time(const Comparison& comparison, const RunProfile& run, const std::string& category);

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
