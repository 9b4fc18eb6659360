#include "nsys_explain/report/comparison_report.hpp"

#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "markdown_table.hpp"
#include "nsys_explain/report/report.hpp"
#include "text.hpp"

namespace nsys_explain::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t shown_changes = 20;

std::string time_of(const std::optional<double>& value) {
  return value ? format_duration(std::llround(*value)) : "-";
}

std::string percent_change(double ratio) {
  return fmt::format("{:+.2f}%", 100 * (ratio - 1));
}

std::string change_text(const Change& change) {
  const auto ratio = change.ratio();
  if (ratio) return percent_change(*ratio);
  if (change.base && change.current) return *change.current > 0 ? "from nothing" : "-";
  return change.current ? "new" : "gone";
}

std::string interval_text(const Change& change) {
  if (!change.estimate) return "not known";
  return fmt::format("{} to {}", percent_change(change.estimate->low), percent_change(change.estimate->high));
}

std::string judgement(const Change& change) {
  if (!change.significant) return change.estimate ? "within noise" : "";
  const bool larger = change.ratio().value_or(1) > 1;
  return larger == change.larger_is_worse ? "worse" : "better";
}

/// Changes by topic in their order, each topic cut to its most telling.
std::vector<std::pair<std::string, std::vector<const Change*>>> by_topic(const Comparison& comparison) {
  std::vector<std::pair<std::string, std::vector<const Change*>>> topics;
  for (const Change& change : comparison.changes) {
    if (topics.empty() || topics.back().first != change.topic) topics.push_back({change.topic, {}});
    topics.back().second.push_back(&change);
  }
  return topics;
}

/// "gain" of a run that is faster: base / current - 1.
std::string gain_text(const Change& headline) {
  if (!headline.ratio()) return {};
  const double gain = 1 / *headline.ratio() - 1;
  if (!headline.estimate) return fmt::format("gain {:+.2f}%, its noise is not known", 100 * gain);
  return fmt::format("gain {:+.2f}% (99% interval {:+.2f}% to {:+.2f}%)", 100 * gain,
                     100 * (1 / headline.estimate->high - 1), 100 * (1 / headline.estimate->low - 1));
}

std::string headline_text(const Comparison& comparison) {
  const Change& headline = comparison.headline;
  const std::string what = headline.topic == "step" ? "a step" : "the window";
  const std::string times =
      fmt::format("{} takes {} instead of {}", what, time_of(headline.current), time_of(headline.base));
  switch (comparison.verdict) {
    case ComparisonVerdict::same:
      return fmt::format("No change beyond the noise: {}", times);
    case ComparisonVerdict::better:
      return fmt::format("Faster: {}", times);
    case ComparisonVerdict::worse:
      return fmt::format("Slower: {}", times);
    case ComparisonVerdict::unknown:
      break;
  }
  return fmt::format("Cannot be judged: {}", times);
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

constexpr std::string_view page_style =
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1100px;padding:0 1rem;color:#1b1f24;"
    "background:#fff}table{border-collapse:collapse;width:100%}th,td{padding:.2rem .6rem;text-align:right;"
    "border-bottom:1px solid #d9dde3}th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}"
    ".worse{color:#b42318}.better{color:#1a7f45}.note{color:#57606a}"
    "@media(prefers-color-scheme:dark){body{color:#e6e9ed;background:#14171b}th,td{border-color:#363c45}"
    ".worse{color:#ff8a7a}.better{color:#6fd08c}.note{color:#a3acb8}}";

}  // namespace

std::string comparison_to_json(const Comparison& comparison) {
  Json document = {{"schema_version", "1.0"},
                   {"base", comparison.base_name},
                   {"current", comparison.current_name},
                   {"history", comparison.history},
                   {"verdict", verdict_name(comparison.verdict)},
                   {"headline", change_json(comparison.headline)}};
  document["changes"] = Json::array();
  for (const Change& change : comparison.changes) document["changes"].push_back(change_json(change));
  document["trend"] = Json::array();
  for (const auto& [name, value] : comparison.trend) document["trend"].push_back({{"run", name}, {"value", value}});
  document["notes"] = comparison.notes;
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string comparison_summary(const Comparison& comparison) {
  return fmt::format("{}; {}.\n", headline_text(comparison), gain_text(comparison.headline));
}

std::string comparison_to_markdown(const Comparison& comparison) {
  std::string out = fmt::format("# {}\n\n", headline_text(comparison));
  out += wrap(fmt::format("{}: {} against {}.", gain_text(comparison.headline),
                          markdown_path(comparison.current_name, 60), markdown_path(comparison.base_name, 60)),
              "", "");
  for (const std::string& note : comparison.notes) out += wrap(markdown_text(note, 600), "- ", "  ");
  if (comparison.trend.size() > 2) {
    MarkdownTable trend{{{"run", MarkdownTable::Align::left}, {"time"}}, {}};
    for (const auto& [name, value] : comparison.trend) trend.rows.push_back({markdown_path(name, 60), time_of(value)});
    out += "\n## Trend\n\n" + trend.to_string();
  }
  for (const auto& [topic, changes] : by_topic(comparison)) {
    out += fmt::format("\n## By {}\n\n", topic);
    MarkdownTable table{{{"name", MarkdownTable::Align::left},
                         {"figure", MarkdownTable::Align::left},
                         {"before"},
                         {"now"},
                         {"change"},
                         {"99% interval"},
                         {"", MarkdownTable::Align::left}},
                        {}};
    for (std::size_t i = 0; i < std::min(changes.size(), shown_changes); ++i) {
      const Change& change = *changes[i];
      table.rows.push_back({markdown_code(change.name, 48), change.figure, time_of(change.base),
                            time_of(change.current), change_text(change), interval_text(change), judgement(change)});
    }
    out += table.to_string();
    if (changes.size() > shown_changes) {
      out += fmt::format("\n... and {} more (`changes` in compare.json).\n", changes.size() - shown_changes);
    }
  }
  return out;
}

std::string comparison_to_html(const Comparison& comparison) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\"><title>nsys-explain-mpi compare</title>"
      "<style>{}</style></head><body>\n<h1 class=\"{}\">{}</h1>\n<p>{}: {} against {}.</p>\n",
      page_style, verdict_name(comparison.verdict), html_text(headline_text(comparison)),
      html_text(gain_text(comparison.headline)), html_text(comparison.current_name), html_text(comparison.base_name));
  for (const std::string& note : comparison.notes) out += fmt::format("<p class=\"note\">{}</p>\n", html_text(note));
  if (comparison.trend.size() > 2) {
    out += "<h2>Trend</h2>\n<table><thead><tr><th>run</th><th>time</th></tr></thead><tbody>\n";
    for (const auto& [name, value] : comparison.trend) {
      out += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", html_text(name), time_of(value));
    }
    out += "</tbody></table>\n";
  }
  for (const auto& [topic, changes] : by_topic(comparison)) {
    out += fmt::format(
        "<h2>By {}</h2>\n<table><thead><tr><th>name</th><th>figure</th><th>before</th><th>now</th><th>change</th>"
        "<th>99% interval</th><th></th></tr></thead><tbody>\n",
        html_text(topic));
    for (const Change* change : changes) {
      out += fmt::format(
          "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"{}\">{}</td></tr>\n",
          html_text(change->name), html_text(change->figure), time_of(change->base), time_of(change->current),
          change_text(*change), interval_text(*change),
          judgement(*change) == "within noise" ? "note" : judgement(*change), judgement(*change));
    }
    out += "</tbody></table>\n";
  }
  return out + "</body></html>\n";
}

}  // namespace nsys_explain::report
