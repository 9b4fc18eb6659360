#include "report/comparison_report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/comparison_text.hpp"
#include "report/markdown_parts.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {
namespace {

using Json = nlohmann::ordered_json;

/// Characters of a line on a terminal.
constexpr std::size_t terminal_width = 110;

Json optional_number(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json change_json(const Change& change) {
  Json object = {{"topic", change.topic},
                 {"name", change.name},
                 {"figure", change.figure},
                 {"base", optional_number(change.base)},
                 {"current", optional_number(change.current)},
                 {"ratio", optional_number(change.ratio())},
                 {"ratio_low", nullptr},
                 {"ratio_high", nullptr},
                 {"significant", change.significant}};
  if (change.estimate) {
    object["ratio_low"] = change.estimate->low;
    object["ratio_high"] = change.estimate->high;
  }
  return object;
}

Json places_json(const Comparison& comparison) {
  Json places = Json::array();
  for (const ChangedPlace& place : comparison.changed_places)
    places.push_back({{"place", place.place},
                      {"trace_ranks", place.trace_ranks},
                      {"base_ns", place.base_ns},
                      {"current_ns", place.current_ns},
                      {"part", part_name(place.part)},
                      {"part_base_ns", place.part_base_ns},
                      {"part_current_ns", place.part_current_ns}});
  return places;
}

/// As values_ns of Trend: null where a run has no such thing.
Json trend_json(const Trend& trend) {
  Json values = Json::array();
  for (const auto& value : trend.values_ns) values.push_back(optional_number(value));
  return {{"topic", trend.topic},
          {"figure", trend.figure},
          {"values_ns", std::move(values)},
          {"change_per_run", optional_number(trend.change_per_run)},
          {"p_value", optional_number(trend.p_value)},
          {"direction", trend_direction_name(trend.direction)}};
}

Json means_json(const std::vector<MeanTime>& means) {
  Json object = Json::object();
  for (const MeanTime& one : means) object[one.name] = one.mean_ns;
  return object;
}

Json findings_json(const RunProfile& run) {
  Json list = Json::array();
  for (const RunFinding& finding : run.findings)
    list.push_back({{"id", finding.id}, {"severity", finding.severity}, {"title", finding.title}});
  return list;
}

Json run_json(const RunProfile& run) {
  return {{"run", run.name},
          {"trace_ranks", run.trace_ranks},
          {"steps", run.steps},
          {"step_ns", optional_number(run.step_ns)},
          {"tokens", optional_number(run.tokens)},
          {"tokens_per_second", optional_number(run.tokens_per_second)},
          {"busy_ns", run.busy_ns()},
          {"busy_ns_per_token", run.tokens ? Json(run.busy_ns() / *run.tokens) : Json(nullptr)},
          {"rank_means_ns", means_json(run.rank_means_ns)},
          {"category_ns", means_json(run.categories)},
          {"findings", findings_json(run)}};
}

/// Numbers to the right: where any of them begins as one.
MarkdownTable::Align align_of(const ComparisonSection& section, std::size_t column) {
  const bool is_number = std::any_of(section.rows.begin(), section.rows.end(),
                                     [&](const auto& row) { return row[column].find_first_of("0123456789+-") == 0; });
  return column > 0 && is_number ? MarkdownTable::Align::right : MarkdownTable::Align::left;
}

/// Names are code spans in the first column, and in the titles of columns per run.
std::string to_markdown_table(const ComparisonSection& section) {
  const bool rows_are_runs = section.titles.front() == "run";
  MarkdownTable table;
  for (std::size_t c = 0; c < section.titles.size(); ++c)
    table.columns.push_back(
        {c > 0 && c <= section.run_columns ? markdown_path(section.titles[c], 40) : section.titles[c],
         align_of(section, c)});
  for (const std::vector<std::string>& row : section.rows) {
    if (table.rows.size() == section.most) break;
    table.rows.push_back(row);
    table.rows.back().front() = rows_are_runs ? markdown_path(row.front(), 60) : markdown_code(row.front(), 48);
  }
  return table.to_string() + rest_note(section.rows.size(), table.rows.size(), "`changes` in compare.json");
}

/// A name within a block of code, which it cannot end.
std::string in_fence(const std::string& name) {
  std::string text = plain_text(name, 48);
  std::replace(text.begin(), text.end(), '`', '\'');
  return text;
}

/// One bar per category and run, on one scale: 40 characters for the longest.
std::string bars(const Comparison& comparison) {
  constexpr double widest = 40;
  double longest = 0;
  const std::vector<std::string> names = category_names(comparison);
  std::size_t name_width = 0;
  for (const std::string& name : names) {
    name_width = std::max(name_width, text_width(in_fence(name)));
    for (const RunProfile& run : comparison.runs) longest = std::max(longest, category_time(comparison, run, name));
  }
  if (longest <= 0) return {};
  std::string out = "\n```\n";
  for (const std::string& name : names) {
    for (std::size_t r = 0; r < comparison.runs.size(); ++r) {
      const double time = category_time(comparison, comparison.runs[r], name);
      const auto length = static_cast<std::size_t>(std::lround(widest * time / longest));
      const std::string shown = r == 0 ? in_fence(name) : "";
      out += fmt::format("{}{} {} |{}{}\n", shown, std::string(name_width - text_width(shown), ' '), r + 1,
                         std::string(length, '#'), time > 0 ? " " + time_of(time) : "");
    }
  }
  return out + "```\n";
}

std::string to_markdown(const ComparisonSection& section, const Comparison& comparison) {
  std::string out = fmt::format("\n## {}\n\n", section.title);
  if (!section.note.empty()) out += wrap(section.note, "", "");
  if (section.picture == ComparisonSection::Picture::categories) out += bars(comparison);
  if (!section.note.empty()) out += '\n';
  for (const std::string& item : section.items) out += wrap(markdown_text(item, 600), "- ", "  ");
  return section.titles.empty() ? out : out + to_markdown_table(section);
}

}  // namespace

std::string comparison_to_json(const Comparison& comparison) {
  Json document = {{"schema_version", "1.0"}, {"side_by_side", comparison.side_by_side}};
  document["runs"] = Json::array();
  for (const RunProfile& run : comparison.runs) document["runs"].push_back(run_json(run));
  document["basis"] = basis_name(comparison.basis);
  if (!comparison.side_by_side) {
    document["base"] = comparison.base().name;
    document["current"] = comparison.current().name;
    document["verdict"] = verdict_name(comparison.verdict);
    document["is_one_run"] = comparison.is_one_run;
    document["headline"] = change_json(comparison.headline);
    document["changed_places"] = places_json(comparison);
    document["kernel_time_ratio"] = optional_number(comparison.kernel_time_ratio);
    document["changes"] = Json::array();
    for (const Change& change : comparison.changes) document["changes"].push_back(change_json(change));
    document["history"] = Json::array();
    for (const RunProfile& run : comparison.runs) document["history"].push_back(run.name);
    document["trend"] = Json::array();
    for (const Trend& trend : comparison.trends) document["trend"].push_back(trend_json(trend));
  }
  document["notes"] = comparison.notes;
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string comparison_summary(const Comparison& comparison) {
  if (comparison.side_by_side) return headline_text(comparison) + ".\n";
  std::string out = wrap(headline_text(comparison) + '.', "", "  ", terminal_width);
  for (const std::string& text : explanation_texts(comparison))
    out += wrap(plain_text(text, 900), "  ", "  ", terminal_width);
  for (const std::string& note : comparison.notes)
    out += wrap("Note: " + plain_text(note, 600), "  ", "  ", terminal_width);
  return out;
}

std::string comparison_to_markdown(const Comparison& comparison) {
  std::string out = fmt::format("# {}\n\n", headline_text(comparison));
  if (!comparison.side_by_side) {
    out += wrap(fmt::format("{} against {}.", markdown_path(comparison.current().name, 60),
                            markdown_path(comparison.base().name, 60)),
                "", "");
    for (const std::string& text : explanation_texts(comparison)) out += '\n' + wrap(markdown_text(text, 900), "", "");
    if (!comparison.notes.empty()) out += '\n';
  }
  for (const std::string& note : comparison.notes) out += wrap(markdown_text(note, 600), "- ", "  ");
  for (const ComparisonSection& section : comparison_sections(comparison)) out += to_markdown(section, comparison);
  return out;
}

}  // namespace nsys_explain::report
