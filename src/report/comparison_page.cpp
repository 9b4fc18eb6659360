#include <algorithm>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "report/comparison_report.hpp"
#include "report/comparison_text.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {
namespace {

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

constexpr std::string_view page_style =
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1100px;padding:0 1rem;color:#1b1f24;background:#fff}table{border-collapse:collapse;width:100%}th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #d9dde3}th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere;min-width:14rem}td:not(:first-child){white-space:nowrap}.wide{overflow-x:auto}.bar{display:flex;height:1.4rem;background:#eef0f3}.bar i{display:block;height:100%}.run{margin:.6rem 0 0}.bar+table{margin-top:1rem}.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;padding:0}.legend i{display:inline-block;width:.8rem;height:.8rem;margin-right:.35rem}.worse{color:#b42318}.better{color:#1a7f45}.note{color:#57606a}@media(prefers-color-scheme:dark){body{color:#e6e9ed;background:#14171b}th,td{border-color:#363c45}.bar{background:#262b32}.worse{color:#ff8a7a}.better{color:#6fd08c}.note{color:#a3acb8}}";

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
  for (std::size_t c = 0; c < names.size(); ++c) {
    out += fmt::format("<li><i style=\"background:{}\"></i>{}</li>", colour(c), html_text(names[c]));
  }
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
      page_style, verdict_name(comparison.verdict), html_text(headline_text(comparison)));
  if (!comparison.side_by_side) {
    out +=
        fmt::format("<p>{} against {}.</p>\n", html_text(comparison.current().name), html_text(comparison.base().name));
    for (const std::string& text : explanation_texts(comparison)) out += fmt::format("<p>{}</p>\n", html_text(text));
  }
  for (const std::string& note : comparison.notes) out += fmt::format("<p class=\"note\">{}</p>\n", html_text(note));
  for (const ComparisonSection& section : comparison_sections(comparison)) out += to_html(section, comparison);
  return out + "</body></html>\n";
}

}  // namespace nsys_explain::report
