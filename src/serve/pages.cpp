#include "serve/pages.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "serve/requests.hpp"

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

/// "33.9 ms"; "-" where no step is known.
std::string step_text(const Json& step_ns) {
  if (!step_ns.is_number()) return "-";
  const double ms = step_ns.get<double>() / 1e6;
  return ms < 1000 ? fmt::format("{:.3g} ms", ms) : fmt::format("{:.3g} s", ms / 1000);
}

std::string list_row(const Json& summary) {
  const std::string name = text_at(summary, "name"), problem = text_at(summary, "problem"), job = job_of(name);
  const Json ranks = summary.value("trace_ranks", Json());
  const std::string verdict = problem.empty()
                                  ? fmt::format("<span class=\"{}\">{}</span>",
                                                summary.value("complete", Json(true)) == Json(false) ? "medium" : "",
                                                html_text(text_at(summary, "verdict")))
                                  : fmt::format("<span class=\"problem\">{}</span>", html_text(problem));
  const std::string runs = job == name ? ""
                                       : fmt::format("<br><a class=\"muted\" href=\"/?job={}\">all runs of {}</a>",
                                                     escaped(job), html_text(job));
  return fmt::format(
      "<tr><td>{}{}</td><td>{}</td><td class=\"number\" data-name=\"step\">{}</td><td class=\"number\" data-name=\"fixing saves\">{}</td><td class=\"number\" data-name=\"ranks\">{}</td><td class=\"date\" data-name=\"analysed\">{}</td><td class=\"pick\"><label><input type=\"radio\" name=\"before\" value=\"{}\" required> before</label></td><td class=\"pick\"><label><input type=\"radio\" name=\"after\" value=\"{}\" required> after</label></td></tr>\n",
      report_link(name, "", name), runs, verdict, step_text(summary.value("step_ns", Json())),
      percent(summary.value("saved_share", Json())), ranks.is_number() ? ranks.dump() : "-",
      date(text_at(summary, "date_utc")), html_text(name), html_text(name));
}

/// The address of the same list with another order or place.
std::string list_address(const HistoryQuery& query, const std::string& order, std::size_t offset) {
  std::string address = fmt::format("/?order={}", escaped(order));
  if (!query.find.empty()) address += "&find=" + escaped(query.find);
  if (!query.job.empty()) address += "&job=" + escaped(query.job);
  if (query.limit != HistoryQuery{}.limit) address += fmt::format("&limit={}", query.limit);
  if (offset > 0) address += fmt::format("&offset={}", offset);
  return html_text(address);
}

/// A column that the list can be sorted by: the largest or latest first, and a second click the other way.
std::string sorting_head(const HistoryQuery& query, const char* order, const char* words, const char* kind) {
  const std::string falling = std::string("-") + order;
  const bool is_falling = query.order == falling, is_rising = query.order == order;
  return fmt::format("<th class=\"{}\"{}><a href=\"{}\">{}</a></th>", kind,
                     is_falling  ? " aria-sort=\"descending\""
                     : is_rising ? " aria-sort=\"ascending\""
                                 : "",
                     list_address(query, is_falling ? order : falling, 0), words);
}

/// Steps of one job's runs, the oldest at the left: as they are, and, dashed, with the verdict's finding fixed. The
/// height is in proportion to the longest.
std::string steps_over_runs(std::vector<Json> runs) {
  constexpr double width = 720, height = 120, border = 10;
  std::erase_if(runs, [](const Json& run) { return !run.value("step_ns", Json()).is_number(); });
  if (runs.size() < 2) return "";
  std::stable_sort(runs.begin(), runs.end(),
                   [](const Json& a, const Json& b) { return text_at(a, "date_utc") < text_at(b, "date_utc"); });
  double longest_ns = 0;
  for (const Json& run : runs) longest_ns = std::max(longest_ns, run["step_ns"].get<double>());
  std::string line, fixed, points;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Json saved = runs[i].value("saved_share", Json());
    const double x = border + (width - 2 * border) * static_cast<double>(i) / static_cast<double>(runs.size() - 1);
    const double tall = (height - 2 * border) * runs[i]["step_ns"].get<double>() / longest_ns;
    const double y = height - border - tall;
    line += fmt::format("{:.1f},{:.1f} ", x, y);
    fixed += fmt::format("{:.1f},{:.1f} ", x, y + tall * (saved.is_number() ? saved.get<double>() : 0));
    points += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{}, {}: a step of {}; fixing saves {}</title></circle>", x,
        y, html_text(text_at(runs[i], "name")), date(text_at(runs[i], "date_utc")), step_text(runs[i]["step_ns"]),
        percent(saved));
  }
  return fmt::format(
      "<figure class=\"steps\"><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Median step of each run, oldest first\"><polyline class=\"fixed\" points=\"{}\"/><polyline points=\"{}\"/>{}</svg><figcaption>Median step of each run, oldest first: {} to {}, the longest {}. Dashed: with the finding of its verdict fixed. The axis begins at 0.</figcaption></figure>\n",
      width, height, fixed, line, points, step_text(runs.front()["step_ns"]), step_text(runs.back()["step_ns"]),
      step_text(longest_ns));
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

constexpr const char* drop_part = R"(<h2>Compare two stores</h2>
<form class="upload" id="drop" method="post" action="/compare" enctype="multipart/form-data">
<label for="before">Before (store.h5)</label><input id="before" name="before" type="file" accept=".h5" required>
<label for="after">After (store.h5)</label><input id="after" name="after" type="file" accept=".h5" required>
<div class="wide"><button>Compare</button> <span class="muted" id="drop-told" role="status">Or drop both here: the older one is before.</span></div>
</form>
)";

std::string finding_item(const Json& finding) {
  std::string item = fmt::format("<li><span class=\"{}\">{}</span> {}", severity_class(finding),
                                 html_text(text_at(finding, "severity")), html_text(text_at(finding, "title")));
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

std::string list_page(const History& history, const HistoryQuery& query, bool takes_analyses) {
  std::string body = query.job.empty() ? "<h1>Reports</h1>\n"
                                       : fmt::format("<p><a href=\"/\">All reports</a></p><h1>Runs of {}</h1>\n",
                                                     html_text(query.job)) +
                                             steps_over_runs(history.summaries);
  if (history.matching == 0 && query.find.empty() && query.job.empty()) {
    body += "<p>There is no report yet.</p>\n";
  } else {
    body += fmt::format(
        "<form class=\"find\" role=\"search\"><input type=\"hidden\" name=\"order\" value=\"{}\"><input type=\"hidden\" name=\"job\" value=\"{}\"><label>Name or verdict <input name=\"find\" type=\"search\" value=\"{}\"></label> <button>Find</button> <span class=\"muted\">{} found</span></form>\n",
        html_text(query.order), html_text(query.job), html_text(query.find), history.matching);
    body += "<form action=\"/compare\"><table class=\"reports\"><thead><tr>" +
            sorting_head(query, "name", "report", "") + sorting_head(query, "severity", "verdict", "") +
            sorting_head(query, "step", "step", "number") + sorting_head(query, "saving", "saves", "number") +
            "<th class=\"number\">ranks</th>" + sorting_head(query, "date", "analysed, UTC", "") +
            "<th class=\"pick\" colspan=\"2\">compare</th></tr></thead><tbody>\n";
    for (const Json& summary : history.summaries) body += list_row(summary);
    body += "</tbody></table><p><button>Compare</button></p></form>\n";
    const std::size_t end = query.offset + history.summaries.size();
    if (query.offset > 0)
      body += fmt::format("<a href=\"{}\">Previous</a> ",
                          list_address(query, query.order, query.offset - std::min(query.offset, query.limit)));
    if (end < history.matching) body += fmt::format("<a href=\"{}\">Next</a>", list_address(query, query.order, end));
  }
  body += drop_part;
  if (takes_analyses) body += upload_part;
  body += "<p class=\"muted\">For programs: <a href=\"/openapi.json\">/openapi.json</a></p>";
  return page("nsys-explain-mpi", body,
              std::string("<script src=\"/drop.js\"></script>") +
                  (takes_analyses ? "<script src=\"/service.js\"></script>" : ""));
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

std::string comparison_page(std::string page, const std::string& before, const std::string& after) {
  constexpr std::string_view end = "</body>";
  std::string links = "<ul id=\"both\">";
  for (const std::string& name : {before, after}) {
    links += fmt::format("<li>{}: {}, {}, {}</li>", html_text(name),
                         report_link(name, "/report.html#longest", "the longest operations"),
                         report_link(name, "/report.html#roofline", "roofline"),
                         report_link(name, "/report.html#lanes", "every rank in a step"));
  }
  const std::size_t at = page.rfind(end);
  return at == std::string::npos ? page : page.insert(at, links + "</ul>\n");
}

std::string problem_page(const Json& error) {
  const Json parts = error.value("error", Json::object());
  return page(
      "No answer",
      fmt::format("<p><a href=\"/\">All reports</a></p><h1>No answer</h1><p class=\"problem\">{}</p><p>{}</p><p>{}</p>",
                  html_text(text_at(parts, "problem")), html_text(text_at(parts, "why")),
                  html_text(text_at(parts, "what_to_do"))));
}

const char* const style_sheet = R"css(
:root { color-scheme: light dark; --page: #fff; --raised: #f6f7f9; --line: #d9dde3; --text: #1b1f24; --muted: #57606a;
  --link: #0b5cad; --bad: #b42318; --warn: #8a5a00; --good: #1a7f45; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --raised: #1d2127; --line: #363c45; --text: #e6e9ed;
  --muted: #a3acb8; --link: #6cb0f5; --bad: #ff8a7a; --warn: #e8b64c; --good: #6fd08c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: .5rem 0 1rem; } h2 { font-size: 1.1rem; margin: 1.5rem 0 .5rem; }
a { color: var(--link); } .muted { color: var(--muted); }
table { width: 100%; border-collapse: collapse; } th { text-align: left; color: var(--muted); font-weight: 600; }
th { white-space: nowrap; } label { white-space: nowrap; } form.upload label { white-space: normal; }
#jobs td:first-child { white-space: nowrap; }
th, td { padding: .45rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th.pick, td.pick { width: 5.5rem; text-align: center; } td.number, th.number { text-align: right; white-space: nowrap; }
td.date { white-space: nowrap; } td:first-child { min-width: 7rem; }
.high, .problem { color: var(--bad); font-weight: 600; } .medium { color: var(--warn); font-weight: 600; }
.verdict { font-size: 1.1rem; font-weight: 400; padding: .8rem 1rem; background: var(--raised); border-left: 4px solid var(--link); }
.verdict.high, .verdict.medium { color: inherit; font-weight: 400; } .verdict.high { border-color: var(--bad); }
.verdict.medium { border-color: var(--warn); }
li { margin: .3rem 0; } ul.links { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; }
form.upload { display: grid; grid-template-columns: 9rem 1fr; gap: .5rem 1rem; max-width: 44rem; align-items: center; }
input, button, select { font: inherit; padding: .3rem .6rem; max-width: 100%; } button { cursor: pointer; }
form.upload > .wide { grid-column: 1 / -1; } progress { width: 100%; }
#drop { border: 2px dashed var(--line); border-radius: 6px; padding: .8rem; } #drop.over { border-color: var(--link); background: var(--raised); }
form.find { margin: 0 0 .8rem; } figure.steps { margin: 0 0 1rem; } figure.steps svg { width: 100%; max-width: 45rem; border-bottom: 1px solid var(--line); }
figure.steps polyline { fill: none; stroke: var(--link); stroke-width: 2; } figure.steps polyline.fixed { stroke-dasharray: 4 4; } figure.steps circle { fill: var(--link); } figcaption { color: var(--muted); }
details { margin: .3rem 0; } summary { cursor: pointer; }
@media (max-width: 44rem) {
  form.upload { grid-template-columns: 1fr; }
  table.reports thead { display: none; } table.reports tr { display: block; border-bottom: 1px solid var(--line); padding: .5rem 0; }
  table.reports td { display: block; min-width: 0; border: 0; padding: .1rem 0; text-align: left; }
  table.reports td[data-name]::before { content: attr(data-name) ": "; color: var(--muted); }
  label { white-space: normal; } table.reports td.pick { display: inline-block; width: auto; margin-right: 1.5rem; }
}
)css";

const char* const list_script = R"js('use strict';
const jobs = document.getElementById('jobs');
const form = document.getElementById('upload');
let known = '';

function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function describe(job) {
  if (job.state === 'queued') return 'waits, ' + job.before + ' before it';
  if (job.state === 'running') return 'runs, ' + job.traces_read + (job.traces ? ' of ' + job.traces : '') + ' traces read';
  return job.state + (job.message ? ': ' + job.message : '');
}

function row(job) {
  const line = document.createElement('tr');
  const name = document.createElement('td');
  if (job.state === 'done') {
    const link = element('a', job.name);
    link.href = '/reports/' + encodeURIComponent(job.name);
    name.append(link);
  } else {
    name.append(job.name);
  }
  const act = document.createElement('td');
  if (job.state === 'queued' || job.state === 'running') {
    const button = element('button', 'Cancel');
    button.addEventListener('click', () => fetch('/api/v1/analyses/' + job.id, { method: 'DELETE' }).then(refresh));
    act.append(button);
  }
  line.append(name, element('td', describe(job)), act);
  return line;
}

async function refresh() {
  const answer = await fetch('/api/v1/analyses');
  if (!answer.ok) return;
  const list = (await answer.json()).analyses;
  jobs.replaceChildren(...list.reverse().map(row));
  document.getElementById('jobs-part').hidden = list.length === 0;
  const done = list.filter((job) => job.state === 'done').map((job) => job.id).join();
  if (known !== '' && done !== known.slice(1)) location.reload();
  known = ' ' + done;
  const active = list.some((job) => job.state === 'queued' || job.state === 'running');
  if (active) setTimeout(refresh, 1000);
}

function tell(text) {
  document.getElementById('told').textContent = text;
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  const request = new XMLHttpRequest();
  const bar = document.getElementById('sent');
  request.open('POST', '/api/v1/analyses');
  request.upload.addEventListener('progress', (at) => { bar.hidden = false; bar.max = at.total; bar.value = at.loaded; });
  request.addEventListener('loadend', () => {
    bar.hidden = true;
    let answer = {};
    try { answer = JSON.parse(request.responseText); } catch { /* told below */ }
    if (request.status === 202) {
      tell('');
      form.reset();
      refresh();
    } else {
      tell(answer.error ? answer.error.problem + '; ' + answer.error.what_to_do : 'The upload was cut off; try again.');
    }
  });
  request.send(new FormData(form));
});
refresh();
)js";

const char* const drop_script = R"js('use strict';
const drop = document.getElementById('drop');
for (const kind of ['dragover', 'dragenter'])
  drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add('over'); });
drop.addEventListener('dragleave', () => drop.classList.remove('over'));
drop.addEventListener('drop', (event) => {
  event.preventDefault();
  drop.classList.remove('over');
  const files = [...event.dataTransfer.files].sort((a, b) => a.lastModified - b.lastModified);
  if (files.length !== 2) {
    document.getElementById('drop-told').textContent = 'Drop two files at once, the store.h5 of two reports.';
    return;
  }
  ['before', 'after'].forEach((name, i) => {
    const one = new DataTransfer();
    one.items.add(files[i]);
    document.getElementById(name).files = one.files;
  });
  drop.requestSubmit();
});
)js";

}  // namespace nsys_explain::serve
