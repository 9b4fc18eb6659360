#include "serve/pages.hpp"

#include <fmt/format.h>

#include "serve/target.hpp"

namespace nsys_explain::serve {
namespace {

std::string page(std::string_view title, std::string_view body, std::string_view script = "") {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title><link rel=\"stylesheet\" href=\"/service.css\"><link rel=\"icon\" href=\"data:,\"></head>\n<body>{}{}</body></html>\n",
      html_text(title), body, script);
}

std::string text_at(const Json& object, const char* key) {
  const Json value = object.is_object() ? object.value(key, Json()) : Json();
  return value.is_string() ? value.get<std::string>() : "";
}

std::string percent(const Json& share) {
  return share.is_number() ? fmt::format("{:.1f}%", 100 * share.get<double>()) : "-";
}

/// "2026-11-25T21:45:27Z" with a space instead of the T and without the Z.
std::string date(std::string text) {
  if (text.size() >= 16 && text[10] == 'T') text = text.substr(0, 10) + ' ' + text.substr(11, 5);
  return text.empty() ? "-" : text;
}

std::string severity_class(const Json& object) {
  const std::string word = text_at(object, "severity");
  return word == "high" || word == "medium" ? word : "";
}

std::string report_link(const std::string& name, const std::string& rest, const std::string& text) {
  return fmt::format("<a href=\"/reports/{}{}\">{}</a>", escaped(name), rest, html_text(text));
}

std::string list_row(const Json& summary) {
  const std::string name = text_at(summary, "name"), problem = text_at(summary, "problem");
  const Json ranks = summary.value("trace_ranks", Json());
  const std::string verdict = problem.empty()
                                  ? fmt::format("<span class=\"{}\">{}</span>",
                                                summary.value("complete", Json(true)) == Json(false) ? "medium" : "",
                                                html_text(text_at(summary, "verdict")))
                                  : fmt::format("<span class=\"problem\">{}</span>", html_text(problem));
  return fmt::format(
      "<tr><td>{}</td><td>{}</td><td class=\"number\" data-name=\"mending saves\">{}</td><td class=\"number\" data-name=\"trace ranks\">{}</td><td class=\"date\" data-name=\"analysed\">{}</td><td class=\"pick\"><label><input type=\"radio\" name=\"before\" value=\"{}\" required> before</label></td><td class=\"pick\"><label><input type=\"radio\" name=\"after\" value=\"{}\" required> after</label></td></tr>\n",
      report_link(name, "", name), verdict, percent(summary.value("saved_share", Json())),
      ranks.is_number() ? ranks.dump() : "-", date(text_at(summary, "date_utc")), html_text(name), html_text(name));
}

constexpr const char* upload_part = R"(<h2>Analyse more</h2>
<form class="upload" id="upload" method="post" action="/api/v1/analyses" enctype="multipart/form-data">
<label for="name">Name of the report</label><input id="name" name="name" required pattern="[A-Za-z0-9][A-Za-z0-9._\-]{0,99}">
<label for="files">Exports (.sqlite), one per rank or node</label><input id="files" name="files" type="file" multiple required>
<div class="wide"><button>Upload and analyse</button></div>
<progress class="wide" id="sent" hidden></progress><div class="wide problem" id="told" role="status"></div>
</form>
<div id="jobs-part" hidden><h2>Analyses</h2><table><thead><tr><th>report</th><th>state</th><th></th></tr></thead><tbody id="jobs"></tbody></table></div>
)";

std::string finding_item(const Json& finding) {
  std::string item = fmt::format("<li><span class=\"{}\">{}</span> {} <span class=\"muted\">({})</span>",
                                 severity_class(finding), html_text(text_at(finding, "severity")),
                                 html_text(text_at(finding, "title")), html_text(text_at(finding, "row")));
  if (const std::string advice = text_at(finding, "recommendation"); !advice.empty())
    item += "<br>Next: " + html_text(advice);
  const Json evidence = finding.value("evidence", Json::array());
  if (evidence.is_array() && !evidence.empty()) {
    item += "<details><summary>Evidence</summary><ul>";
    for (const Json& line : evidence)
      item += "<li>" + html_text(line.is_string() ? line.get<std::string>() : line.dump()) + "</li>";
    item += "</ul></details>";
  }
  return item + "</li>\n";
}

std::string compare_form(const std::string& name, const std::vector<std::string>& others) {
  if (others.empty()) return "";
  std::string form = fmt::format(
      "<h2>Compare</h2><form action=\"/compare\"><input type=\"hidden\" name=\"after\" value=\"{}\"><label>What changed since <select name=\"before\">",
      html_text(name));
  for (const std::string& other : others) form += fmt::format("<option>{}</option>", html_text(other));
  return form + "</select></label> <button>Compare</button></form>\n";
}

}  // namespace

std::string list_page(const std::vector<Json>& summaries, bool takes_analyses) {
  std::string body = "<h1>Reports</h1>\n";
  if (summaries.empty()) {
    body += "<p>There is no report yet.</p>\n";
  } else {
    body +=
        "<form action=\"/compare\"><table class=\"reports\"><thead><tr><th>report</th><th>verdict</th><th class=\"number\">saves</th><th class=\"number\">ranks</th><th>analysed, UTC</th><th class=\"pick\" colspan=\"2\">compare</th></tr></thead><tbody>\n";
    for (const Json& summary : summaries) body += list_row(summary);
    body += "</tbody></table><p><button>Compare</button></p></form>\n";
  }
  if (takes_analyses) body += upload_part;
  body += "<p class=\"muted\">For programs: <a href=\"/openapi.json\">/openapi.json</a></p>";
  return page("nsys-explain-mpi", body, takes_analyses ? "<script src=\"/service.js\"></script>" : "");
}

std::string report_page(const Json& verdict_answer, const Json& findings, const std::vector<std::string>& others) {
  const std::string name = text_at(verdict_answer, "report");
  const Json verdict = verdict_answer.value("verdict", Json::object());
  std::string body = fmt::format("<p><a href=\"/\">All reports</a></p><h1>{}</h1>\n<p class=\"verdict {}\">{}",
                                 html_text(name), severity_class(verdict), html_text(text_at(verdict, "text")));
  if (const std::string next = text_at(verdict, "next"); !next.empty())
    body += "<br><span class=\"muted\">Next:</span> " + html_text(next);
  body += "</p>\n<ul class=\"links\">";
  for (const auto& [file, words] :
       {std::pair("report.html", "The whole report"), std::pair("report.md", "as text"),
        std::pair("report.json", "as JSON"), std::pair("store.h5", "store.h5 (every table)")}) {
    body += "<li>" + report_link(name, std::string("/") + file, words) + "</li>";
  }
  body += fmt::format("<li><a href=\"/api/v1/reports/{}/tables\">Tables</a></li></ul>\n<h2>Findings</h2><ul>",
                      escaped(name));
  for (const Json& finding : findings.value("findings", Json::array())) body += finding_item(finding);
  body += "</ul>\n" + compare_form(name, others);
  return page(name, body);
}

std::string problem_page(const Json& error) {
  const Json parts = error.value("error", Json::object());
  return page(
      "No answer",
      fmt::format("<p><a href=\"/\">All reports</a></p><h1>No answer</h1><p class=\"problem\">{}</p><p>{}</p><p>{}</p>",
                  html_text(text_at(parts, "problem")), html_text(text_at(parts, "why")),
                  html_text(text_at(parts, "what_to_do"))));
}

}  // namespace nsys_explain::serve
