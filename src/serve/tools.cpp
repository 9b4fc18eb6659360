#include "serve/tools.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "serve/refusal.hpp"

namespace nsys_explain::serve {
namespace {

constexpr std::size_t reserve_tokens = 60;  ///< for the line that says what was cut
constexpr std::string_view cut_note =
    "cut: more did not fit into one answer; ask tool table for rows, columns, order and offset of your choice";

std::string word_of(const Json& value, std::size_t longest_text) {
  if (value.is_string()) {
    return Json(beginning_of(value.get<std::string>(), longest_text))
        .dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  if (value.is_null()) return "\"unknown\"";
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string text_argument(const Json& arguments, const char* name) {
  const auto found = arguments.find(name);
  if (found == arguments.end() || found->is_null()) return "";
  if (found->is_string()) return found->get<std::string>();
  throw Refusal(400, fmt::format("the argument '{}' is no text", name), "so nobody can tell what is asked for",
                "give a text; tools/list has the arguments of every tool");
}

std::int64_t number_argument(const Json& arguments, const char* name) {
  const auto found = arguments.find(name);
  if (found != arguments.end() && found->is_number_integer()) return found->get<std::int64_t>();
  throw Refusal(400, fmt::format("the argument '{}' is missing or no whole number", name),
                "so nobody can tell which one is meant", "give a number that a table of the report has");
}

/// Arguments of the tool `table` as those of an address.
TableQuery query_of(const Json& arguments) {
  std::vector<std::pair<std::string, std::string>> parameters;
  for (const char* name : {"columns", "order"})
    if (const std::string text = text_argument(arguments, name); !text.empty()) parameters.emplace_back(name, text);
  for (const char* name : {"limit", "offset"}) {
    if (arguments.contains(name) && !arguments[name].is_null())
      parameters.emplace_back(name, std::to_string(number_argument(arguments, name)));
  }
  if (const auto where = arguments.find("where"); where != arguments.end() && where->is_array()) {
    for (const Json& condition : *where)
      parameters.emplace_back("where", condition.is_string() ? condition.get<std::string>() : condition.dump());
  } else if (const std::string text = text_argument(arguments, "where"); !text.empty()) {
    parameters.emplace_back("where", text);
  }
  TableQuery query = parse_table_query(parameters);
  query.limit = std::min<std::int64_t>(query.limit, 500);  // more never fits
  return query;
}

/// Rows of a table, one line each; false where the answer is full. Tables that an older report lacks are left out.
bool add_rows(ToolText& text, Report& report, const std::string& table, const TableQuery& query,
              bool with_zeros = true) {
  if (!report.has_table(table)) return true;
  const Report::Rows found = report.rows(table, query);
  for (std::size_t row = 0; row < found.rows.size(); ++row) {
    Json object = Json::object();
    for (std::size_t c = 0; c < found.table.columns.size(); ++c) {
      Json value = value_json(found.table.columns[c], row);
      if (with_zeros || value != 0) object[found.table.schema.columns[c].name] = std::move(value);
    }
    if (!text.add(object_line(fmt::format("{}[{}]", table, found.rows[row]), object))) return false;
  }
  return true;
}

TableQuery about(const std::string& column, std::int64_t value, const std::string& order, std::int64_t limit) {
  TableQuery query;
  query.conditions.push_back({column, Comparison::equal, std::to_string(value)});
  if (!order.empty()) query.order.push_back({order, true});
  query.limit = limit;
  return query;
}

/// Whether the name of a column tells its unit.
bool names_its_unit(const std::string& column) {
  constexpr std::array<std::string_view, 6> endings = {"_ns", "_bytes", "_percent", "_gbs", "_tflops", "_per_second"};
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) { return column.ends_with(ending); });
}

bool has_column(const Report& report, const std::string& table, const std::string& column) {
  if (!report.has_table(table)) return false;
  const ColumnSchemas columns = report.schema(table).columns;
  return std::any_of(columns.begin(), columns.end(), [&](const ColumnSchema& c) { return c.name == column; });
}

TableQuery first(std::int64_t limit) {
  TableQuery query;
  query.limit = limit;
  return query;
}

void tell_verdict(ToolText& text, Report& report) {
  text.add(object_line("report.json#/verdict", report.document().value("verdict", Json::object()), 600));
  add_rows(text, report, "stragglers", first(5));
  add_rows(text, report, "what_if", first(3));
  TableQuery titles = first(5);
  titles.columns = {"id", "severity", "title", "cost_ns"};
  add_rows(text, report, "findings", titles);
}

void tell_findings(ToolText& text, Report& report) {
  TableQuery titles = first(50), whole = first(50);
  titles.columns = {"id", "severity", "title", "recommendation", "cost_ns"};
  whole.columns = {"evidence"};
  if (!add_rows(text, report, "findings", titles) || !report.has_table("findings")) return;
  const Report::Rows found = report.rows("findings", whole);
  for (std::size_t row = 0; row < found.rows.size(); ++row) {
    const Json object = {{"evidence", value_json(found.table.columns.at(0), row)}};
    if (!text.add(object_line(fmt::format("findings[{}]", found.rows[row]), object, 1'200))) return;
  }
}

void tell_rank(ToolText& text, Report& report, std::int64_t trace_rank) {
  if (report.rows("trace_ranks", about("trace_rank", trace_rank, "", 1)).rows.empty()) {
    throw Refusal(404, fmt::format("the report has no trace rank {}", trace_rank), "so there is nothing to explain",
                  "ask tool table for table trace_ranks, which lists them");
  }
  struct Part {
    const char *table, *column, *order;
    std::int64_t limit;
    bool with_zeros = true;
  };
  for (const Part& part :
       {Part{"trace_ranks", "trace_rank", "", 1}, Part{"stragglers", "trace_rank", "", 2},
        Part{"ranks", "trace_rank", "", 1}, Part{"gpu_speed", "trace_rank", "", 1},
        Part{"rank_places", "trace_rank", "", 4}, Part{"straggler_differences", "trace_rank", "", 4},
        Part{"steps", "trace_rank", "own_lateness_ns", 2}, Part{"wait_matrix", "late_trace_rank", "cost_ns", 2},
        Part{"wait_matrix", "waiting_trace_rank", "cost_ns", 2}, Part{"straggler_cases", "trace_rank", "", 2, false},
        Part{"idle_causes", "trace_rank", "", 3}}) {
    if (!has_column(report, part.table, part.column)) continue;
    const std::string order = has_column(report, part.table, part.order) ? part.order : "";
    if (!add_rows(text, report, part.table, about(part.column, trace_rank, order, part.limit), part.with_zeros)) return;
  }
}

void tell_instance(ToolText& text, Report& report, std::int64_t instance) {
  if (instance < 0 || instance >= report.row_count("collective_instances")) {
    throw Refusal(404, fmt::format("the report has no instance {}", instance), "so there is nothing to explain",
                  "ask tool table for table collective_instances, whose row is its number");
  }
  TableQuery one = first(1);
  one.offset = instance;  // row and number of an instance are the same
  add_rows(text, report, "collective_instances", one);
  add_rows(text, report, "straggler_cases", about("instance", instance, "", 2), false);
  // Who came last first.
  add_rows(text, report, "collective_arrivals", about("instance", instance, "enter_ns", 12));
}

void tell_table(ToolText& text, Report& report, const Json& arguments) {
  const std::string table = text_argument(arguments, "table");
  if (table.empty()) {
    text.add(fmt::format("tables: {}", fmt::join(report.tables(), ", ")));
    return;
  }
  const TableSchema schema = report.schema(table);
  const TableQuery query = query_of(arguments);
  std::string units;
  for (const ColumnSchema& column : schema.columns) {
    const bool is_shown = query.columns.empty() ||
                          std::find(query.columns.begin(), query.columns.end(), column.name) != query.columns.end();
    if (is_shown && !column.unit.empty() && !names_its_unit(column.name))
      units += fmt::format(" {} in {};", column.name, column.unit);
  }
  if (!units.empty()) text.add("units:" + units);
  const Report::Rows found = report.rows(table, query);
  if (found.rows.empty()) text.add("no row: the conditions let none through, or the table is empty");
  add_rows(text, report, table, query);
}

void tell_capture_advice(ToolText& text, const Report& report) {
  const Json advice = report.document().value("capture_advice", Json::array());
  if (advice.empty()) text.add("nothing is missing in what was captured");
  for (std::size_t i = 0; i < advice.size(); ++i)
    if (!text.add(object_line(fmt::format("report.json#/capture_advice/{}", i), advice[i], 600))) return;
}

}  // namespace

std::size_t most_tokens_of(std::string_view text) {
  // Three letters or digits, or one of any other character: models take longer pieces.
  std::size_t tokens = 0, run = 0;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      if (run++ % 3 == 0) ++tokens;
    } else {
      run = 0;
      if (c != ' ') ++tokens;
    }
  }
  return tokens;
}

bool ToolText::add(const std::string& line) {
  const std::size_t tokens = most_tokens_of(line) + 1;
  if (is_cut_ || tokens_ + tokens > most_answer_tokens - reserve_tokens) {
    is_cut_ = true;
    return false;
  }
  text_ += line + '\n';
  tokens_ += tokens;
  return true;
}

std::string ToolText::text() const {
  return is_cut_ ? text_ + std::string(cut_note) + '\n' : text_;
}

std::string object_line(const std::string& place, const Json& object, std::size_t longest_text) {
  std::string line = place + ':';
  const char* separator = " ";
  for (const auto& [key, value] : object.items()) {
    if (value.is_null()) continue;
    line += fmt::format("{}{}={}", separator, key, word_of(value, longest_text));
    separator = ", ";
  }
  return line;
}

std::string tool_answer(Report& report, const std::string& tool, const Json& arguments) {
  ToolText text;
  text.add("report: " + word_of(Json(report.name()), 200));
  if (tool == "verdict") {
    tell_verdict(text, report);
  } else if (tool == "findings") {
    tell_findings(text, report);
  } else if (tool == "what_if") {
    add_rows(text, report, "what_if", first(100));
  } else if (tool == "explain_rank") {
    tell_rank(text, report, number_argument(arguments, "trace_rank"));
  } else if (tool == "explain_instance") {
    tell_instance(text, report, number_argument(arguments, "instance"));
  } else if (tool == "table") {
    tell_table(text, report, arguments);
  } else if (tool == "capture_advice") {
    tell_capture_advice(text, report);
  } else {
    throw Refusal(404, fmt::format("there is no tool '{}'", tool), "so nothing is answered", "tools/list has all");
  }
  return text.text();
}

std::string compare_tool_answer(const std::string& before, const std::string& after, const Json& comparison) {
  ToolText text;
  text.add(fmt::format("before: {}", word_of(Json(before), 200)));
  text.add(fmt::format("after: {}", word_of(Json(after), 200)));
  Json outcome = Json::object();
  for (const char* key : {"verdict", "basis", "is_one_run", "kernel_time_ratio"})
    outcome[key] = comparison.value(key, Json());
  text.add(object_line("compare.json#", outcome));
  text.add(object_line("compare.json#/headline", comparison.value("headline", Json::object())));
  const auto add_list = [&](const char* key, bool significant) {
    const Json list = comparison.value(key, Json::array());
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].value("significant", true) != significant) continue;
      if (!text.add(object_line(fmt::format("compare.json#/{}/{}", key, i), list[i]))) return;
    }
  };
  add_list("changed_places", true);
  add_list("changes", true);
  add_list("changes", false);
  return text.text();
}

std::string reports_tool_answer(const History& history, const HistoryQuery& query) {
  ToolText text;
  if (history.matching == 0) text.add("there is no such report");
  for (const Json& summary : history.summaries) {
    text.add(fmt::format("report: {}, run of job {}", word_of(summary.value("name", Json("")), 200),
                         word_of(summary.value("job", Json("")), 200)));
    const Json verdict = {{"text", summary.value("verdict", Json())},
                          {"saved_share", summary.value("saved_share", Json())}};
    text.add(object_line("report.json#/verdict", verdict));
    text.add(object_line("report.json#/step_time", {{"median_ns", summary.value("step_ns", Json())}}));
    text.add(object_line("report.json#/run", {{"date_utc", summary.value("date_utc", Json())}}));
  }
  if (const std::size_t shown = query.offset + history.summaries.size(); shown < history.matching)
    text.add(fmt::format("{} more: offset {}", history.matching - shown, shown));
  return text.text();
}

}  // namespace nsys_explain::serve
