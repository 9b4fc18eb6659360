#include "report/report.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/comparison_text.hpp"
#include "report/markdown.hpp"
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
  const bool has_bars = section.picture == ComparisonSection::Picture::categories;
  if (!section.note.empty())
    out += wrap(section.note + (has_bars ? " Bars are numbered as the runs above." : ""), "", "");
  if (has_bars) out += bars(comparison);
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

std::string html_text(std::string_view text) {
  std::string safe;
  for (const char c : plain_text(text, 4096)) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

namespace {

constexpr std::string_view page_style =
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1100px;padding:0 1rem;color:#1b1f24;background:#fff}table{border-collapse:collapse;width:100%}th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #d9dde3}th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere;min-width:14rem}td:not(:first-child){white-space:nowrap}.wide{overflow-x:auto}.bar{display:flex;height:1.4rem;background:#eef0f3}.bar i{display:block;height:100%}.run{margin:.6rem 0 0}.bar+.wide{margin-top:1rem}.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;padding:0}.legend i{display:inline-block;width:.8rem;height:.8rem;margin-right:.35rem}.worse{color:#b42318}.better{color:#1a7f45}.note{color:#57606a}@media(prefers-color-scheme:dark){body{color:#e6e9ed;background:#14171b}th,td{border-color:#363c45}.bar{background:#262b32}.worse{color:#ff8a7a}.better{color:#6fd08c}.note{color:#a3acb8}}";

/// Told apart on light and dark pages, and by most who see few colours.
constexpr std::string_view palette[] = {"#3b7dd8", "#e07b39", "#3f9d6b", "#b8476b",
                                        "#7d5fc4", "#8b8f97", "#c9a227", "#2aa5a5"};

/// A bar per run, its categories stacked, all on one scale.
std::string category_bars(const Comparison& comparison) {
  double longest = 0;
  for (const RunProfile& run : comparison.runs) longest = std::max(longest, run.busy_ns() / comparison.amount(run));
  if (longest <= 0) return {};
  const std::vector<std::string> names = category_names(comparison);
  const auto colour = [](std::size_t c) { return palette[std::min(c, std::size(palette) - 1)]; };
  std::string out = "<ul class=\"legend\">";
  for (std::size_t c = 0; c < names.size(); ++c)
    out += fmt::format("<li><i style=\"background:{}\"></i>{}</li>", colour(c), html_text(names[c]));
  out += "</ul>\n";
  for (const RunProfile& run : comparison.runs) {
    out += fmt::format("<p class=\"run\">{}</p><div class=\"bar\">", html_text(run.name));
    for (std::size_t c = 0; c < names.size(); ++c) {
      const double time = category_time(comparison, run, names[c]);
      if (time <= 0) continue;
      const std::string label = html_text(fmt::format("{}: {}", names[c], time_of(time)));
      out += fmt::format("<i role=\"img\" aria-label=\"{}\" title=\"{}\" style=\"width:{:.3f}%;background:{}\"></i>",
                         label, label, 100 * time / longest, colour(c));
    }
    out += "</div>\n";
  }
  return out;
}

/// The values of a trend as a line from the oldest run to the newest, between its least and its most.
std::string spark_line(const Trend& trend) {
  constexpr double width = 120, height = 24, margin = 3;
  double least = std::numeric_limits<double>::max(), most = 0;
  for (const auto& value : trend.values_ns) {
    if (value) least = std::min(least, *value);
    if (value) most = std::max(most, *value);
  }
  std::string points;
  for (std::size_t r = 0; r < trend.values_ns.size(); ++r) {
    if (!trend.values_ns[r]) continue;
    const double x =
        margin + (width - 2 * margin) * static_cast<double>(r) / static_cast<double>(trend.values_ns.size() - 1);
    const double share = most > least ? (*trend.values_ns[r] - least) / (most - least) : 0.5;
    points += fmt::format("{:.1f},{:.1f} ", x, height - margin - (height - 2 * margin) * share);
  }
  return fmt::format(
      "<svg width=\"{}\" height=\"{}\" role=\"img\" aria-label=\"{} over the runs: {}\"><polyline points=\"{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\"/></svg>",
      width, height, html_text(trend.figure), trend_text(trend), points);
}

std::string html_table(const ComparisonSection& section, const Comparison& comparison) {
  const bool has_lines = section.picture == ComparisonSection::Picture::trends;
  std::string out = "<div class=\"wide\"><table><thead><tr>";
  for (const std::string& title : section.titles) out += fmt::format("<th scope=\"col\">{}</th>", html_text(title));
  if (has_lines) out += "<th scope=\"col\">oldest to newest</th>";
  out += "</tr></thead><tbody>\n";
  for (std::size_t r = 0; r < section.rows.size(); ++r) {
    out += "<tr>";
    for (const std::string& cell : section.rows[r]) {
      const bool is_judgement = cell == "worse" || cell == "better";
      out += fmt::format("<td{}>{}</td>", is_judgement ? fmt::format(" class=\"{}\"", cell) : "", html_text(cell));
    }
    if (has_lines) out += fmt::format("<td>{}</td>", spark_line(comparison.trends[r]));
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string to_html(const ComparisonSection& section, const Comparison& comparison) {
  std::string out = fmt::format("<h2>{}</h2>\n", html_text(section.title));
  if (!section.note.empty()) out += fmt::format("<p class=\"note\">{}</p>\n", html_text(section.note));
  if (section.picture == ComparisonSection::Picture::categories) out += category_bars(comparison);
  if (!section.items.empty()) out += "<ul>\n";
  for (const std::string& item : section.items) out += fmt::format("<li>{}</li>\n", html_text(item));
  if (!section.items.empty()) out += "</ul>\n";
  return section.titles.empty() ? out : out + html_table(section, comparison);
}

}  // namespace

std::string comparison_to_html(const Comparison& comparison) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\"><title>nsys-explain-mpi compare</title><style>{}</style></head><body>\n<h1 class=\"{}\">{}</h1>\n",
      std::string(page_style) + waterfall_style(), verdict_name(comparison.verdict),
      html_text(headline_text(comparison)));
  if (!comparison.side_by_side) {
    out +=
        fmt::format("<p>{} against {}.</p>\n", html_text(comparison.current().name), html_text(comparison.base().name));
    for (const std::string& text : explanation_texts(comparison)) out += fmt::format("<p>{}</p>\n", html_text(text));
  }
  for (const std::string& note : comparison.notes) out += fmt::format("<p class=\"note\">{}</p>\n", html_text(note));
  out += fmt::format("<details id=\"figures\"><summary>Key figures</summary>\n{}</details>\n",
                     html_table(key_figures_section(comparison), comparison));
  out += kernel_waterfall(comparison) + kernel_rooflines(comparison);
  for (const ComparisonSection& section : comparison_sections(comparison)) out += to_html(section, comparison);
  return out + "</body></html>\n";
}

}  // namespace nsys_explain::report
