#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nsys_explain/model/comparison.hpp"

/// What the Markdown and the HTML of a comparison say in the same words.
namespace nsys_explain::report {

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

}  // namespace nsys_explain::report
