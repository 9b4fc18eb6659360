#pragma once

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
std::string interval_text(const Change& change);
/// "worse", "better", "within noise", or nothing where it cannot be judged.
std::string judgement(const Change& change);
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
/// "[high] trace rank 3 makes the others wait ...": what a run's report found, without what is only said for
/// information.
std::vector<std::string> finding_texts(const RunProfile& run);

/// Changes by topic, in their order.
std::vector<std::pair<std::string, std::vector<const Change*>>> by_topic(const Comparison& comparison);

/// A table of plain texts: titles, then rows. The first column holds names.
struct TextTable {
  std::vector<std::string> titles;
  std::vector<std::vector<std::string>> rows;
};

/// A row per run: its size, its times, and its time per token where tokens are known.
TextTable runs_table(const Comparison& comparison);
/// GPU time by category, a column per run, per step or token where every run has them.
TextTable categories_table(const Comparison& comparison);
/// What a dashboard shows first, a column per run and, of two, the change: GPU time, CPU time, what limits, frameworks.
TextTable key_figures_table(const Comparison& comparison);
/// What is said of the direction of a trend.
std::string trend_text(const Trend& trend);
/// A row per trend with its values by run.
TextTable trend_table(const Comparison& comparison);
/// What the trends mean.
inline constexpr std::string_view trend_meaning =
    "Change per run: median over all pairs of runs. A trend is an order of the runs that chance makes in less than 1% of histories, over all figures together.";

/// Every category of any run, the one with the most time over all runs first.
std::vector<std::string> category_names(const Comparison& comparison);
/// Time of a category in a run by the comparison's basis; 0 where it has none.
double category_time(const Comparison& comparison, const RunProfile& run, const std::string& category);

}  // namespace nsys_explain::report
