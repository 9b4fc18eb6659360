#include "serve/report_answers.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/text.hpp"
#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/time.hpp"
#include "pipeline/tool_rank/own_files.hpp"
#include "serve/refusal.hpp"

namespace nsys_explain::serve {
namespace {

constexpr std::int64_t most_json_bytes = 64'000'000;    ///< twenty times that of 1,024 trace ranks
constexpr std::int64_t most_rows_to_keep = 1'000'000;   ///< of a table whose columns are kept
constexpr std::size_t most_column_bytes = 100'000'000;  ///< of columns kept for the next question

std::size_t bytes_of(const ColumnData& column) {
  return std::visit([](const auto& values) { return values.size() * 8; }, column);
}

ColumnData picked(const ColumnData& column, const std::vector<std::size_t>& rows) {
  return std::visit(
      [&](const auto& values) -> ColumnData {
        std::decay_t<decltype(values)> some;
        for (const std::size_t row : rows) some.push_back(values[row]);
        return some;
      },
      column);
}

/// A part of report.json; null where a report of another version lacks it.
Json part(const Report& report, const char* key) {
  const auto found = report.document().find(key);
  return found == report.document().end() ? Json(nullptr) : *found;
}

/// The objects of an array of report.json, each with the row of the store that holds it.
Json with_rows(const Report& report, const char* table) {
  Json list = part(report, table);
  if (!list.is_array()) return Json::array();
  std::size_t row = 0;
  for (Json& item : list) {
    if (item.is_object()) item["row"] = fmt::format("{}[{}]", table, row);
    ++row;
  }
  return list;
}

}  // namespace

Json value_json(const ColumnData& column, std::size_t row) {
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&column))
    return (*integers)[row] == no_time ? Json(nullptr) : Json((*integers)[row]);
  if (const auto* reals = std::get_if<std::vector<double>>(&column))
    return std::isfinite((*reals)[row]) ? Json((*reals)[row]) : Json(nullptr);
  return Json(std::get<TextColumn>(column)[row]);
}

Report::Report(const ReportTree& tree, const std::string& name)
    : name_(name),
      store_file_(tree.open_file(name, pipeline::store_name)),
      json_file_(tree.open_file(name, pipeline::json_name)),
      store_stamp_(stamp_of(store_file_.number())),
      json_stamp_(stamp_of(json_file_.number())) {
  try {
    store_ = std::make_unique<store::StoreReader>(store_file_.path(),
                                                  fmt::format("the store.h5 of '{}'", beginning_of(name)));
  } catch (const std::runtime_error& error) {
    throw Refusal(503, refusal_of(503, error.what()).problem(), "so its numbers cannot be told",
                  "run the analysis again");
  }
  document_ = Json::parse(read_all(json_file_.number(), most_json_bytes), nullptr, false);
  if (!document_.is_object()) {
    throw Refusal(503, fmt::format("the report.json of '{}' is damaged", beginning_of(name)),
                  "so its verdict cannot be told", "run the analysis again");
  }
}

bool Report::is_current(const ReportTree& tree) const {
  return stamp_of(tree.open_file(name_, pipeline::store_name).number()) == store_stamp_ &&
         stamp_of(tree.open_file(name_, pipeline::json_name).number()) == json_stamp_;
}

TableSchema Report::schema(const std::string& table) const {
  if (!store_->has_table(table)) {
    throw Refusal(404, fmt::format("the report '{}' has no table '{}'", beginning_of(name_), beginning_of(table)),
                  "so there is nothing to show",
                  fmt::format("its tables are: {}", fmt::join(store_->table_names(), ", ")));
  }
  return store_->schema(table);
}

std::int64_t Report::row_count(const std::string& table) const {
  schema(table);
  return store_->row_count(table);
}

std::shared_ptr<const ColumnData> Report::column(const std::string& table, const std::string& name) {
  auto& kept = columns_[{table, name}];
  if (kept) return kept;
  Table read = store_->read(table, 0, row_count(table), {name});
  auto data = std::make_shared<const ColumnData>(std::move(read.columns.at(0)));
  column_bytes_ += bytes_of(*data);
  if (column_bytes_ > most_column_bytes) {  // rare: begin anew
    columns_.clear();
    column_bytes_ = bytes_of(*data);
  }
  columns_[{table, name}] = data;
  return data;
}

Report::Rows Report::rows(const std::string& name, const TableQuery& query) {
  const TableSchema all = schema(name);
  const std::int64_t count = row_count(name);
  check_columns(all, query);
  std::vector<std::shared_ptr<const ColumnData>> in_use;
  const ColumnLookup whole = [&](const std::string& column_name) -> const ColumnData& {
    return *in_use.emplace_back(column(name, column_name));
  };
  ChosenRows chosen = chosen_rows(whole, query, count);

  std::vector<std::string> shown = query.columns;
  if (shown.empty())
    for (const ColumnSchema& column_schema : all.columns) shown.push_back(column_schema.name);
  // Who asks for rows by their values asks again for others of them: numbers are kept, texts would take too much.
  const bool keeps_numbers = !(query.conditions.empty() && query.order.empty()) && count <= most_rows_to_keep;
  const auto is_kept = [&](const std::string& column_name) {
    return keeps_numbers && all.columns[all.index_of(column_name)].kind != ColumnKind::text;
  };
  std::vector<std::string> others;
  for (const std::string& column_name : shown)
    if (!is_kept(column_name)) others.push_back(column_name);
  std::vector<std::int64_t> sorted = chosen.rows;  // the store is read in its own order
  std::sort(sorted.begin(), sorted.end());
  const Table read = store_->read_rows(name, sorted, others);
  std::vector<std::size_t> in_store, in_read;
  for (const std::int64_t row : chosen.rows) {
    in_store.push_back(static_cast<std::size_t>(row));
    in_read.push_back(static_cast<std::size_t>(std::lower_bound(sorted.begin(), sorted.end(), row) - sorted.begin()));
  }
  Rows found{{{all.name, all.description, {}}, {}}, std::move(chosen.rows), chosen.matching};
  for (const std::string& column_name : shown) {
    found.table.schema.columns.push_back(all.columns[all.index_of(column_name)]);
    const bool kept = is_kept(column_name);
    const ColumnData& from = kept ? whole(column_name) : read.columns[read.schema.index_of(column_name)];
    found.table.columns.push_back(picked(from, kept ? in_store : in_read));
  }
  return found;
}

Json summary_answer(const Report& report) {
  const Json verdict = part(report, "verdict"), run = part(report, "run"), ranks = part(report, "trace_ranks"),
             step_time = part(report, "step_time");
  const auto of = [](const Json& object, const char* key) {
    return object.is_object() && object.contains(key) ? object[key] : Json(nullptr);
  };
  const Json steps = of(step_time, "steps");
  return {{"name", report.name()},
          {"job", job_of(report.name())},
          {"verdict", of(verdict, "text")},
          {"severity", of(verdict, "severity")},
          {"saved_share", of(verdict, "saved_share")},
          {"step_ns", steps.is_number() && steps > 0 ? of(step_time, "median_ns") : Json(nullptr)},
          {"trace_ranks", ranks.is_array() ? Json(ranks.size()) : Json(nullptr)},
          {"complete", of(verdict, "complete")},
          {"date_utc", of(run, "date_utc")}};
}

Json verdict_answer(const Report& report) {
  Json answer = {
      {"report", report.name()}, {"verdict", part(report, "verdict")}, {"step_time", part(report, "step_time")}};
  answer["stragglers"] = with_rows(report, "stragglers");
  answer["source"] = "report.json#/verdict, #/step_time; rows of store.h5";
  return answer;
}

Json findings_answer(const Report& report) {
  return {{"report", report.name()}, {"findings", with_rows(report, "findings")}};
}

Json what_if_answer(const Report& report) {
  return {{"report", report.name()}, {"what_if", with_rows(report, "what_if")}};
}

Json capture_advice_answer(const Report& report) {
  const Json advice = part(report, "capture_advice");
  return {{"report", report.name()}, {"capture_advice", advice.is_array() ? advice : Json::array()}};
}

Json tables_answer(const Report& report) {
  Json tables = Json::array();
  for (const std::string& name : report.tables()) {
    tables.push_back(
        {{"table", name}, {"rows", report.row_count(name)}, {"description", report.schema(name).description}});
  }
  return {{"report", report.name()}, {"tables", std::move(tables)}};
}

Json table_answer(Report& report, const std::string& table, const TableQuery& query) {
  const Report::Rows found = report.rows(table, query);
  Json columns = Json::array(), values = Json::array();
  for (const ColumnSchema& column : found.table.schema.columns) {
    columns.push_back({{"name", column.name},
                       {"kind", column_kind_name(column.kind)},
                       {"unit", column.unit},
                       {"description", column.description}});
  }
  for (std::size_t row = 0; row < found.rows.size(); ++row) {
    Json line = Json::array();
    for (const ColumnData& column : found.table.columns) line.push_back(value_json(column, row));
    values.push_back(std::move(line));
  }
  return {{"report", report.name()},
          {"table", table},
          {"description", report.schema(table).description},
          {"rows", report.row_count(table)},
          {"matching", found.matching},
          {"columns", std::move(columns)},
          {"row", found.rows},
          {"values", std::move(values)}};
}

namespace {

constexpr std::array<std::string_view, 5> orders = {"date", "name", "saving", "severity", "step"};
constexpr std::array<std::string_view, 4> severities = {"info", "low", "medium", "high"};
constexpr std::size_t most_listed = 10'000;

std::string text_of(const Json& summary, const char* key) {
  const auto found = summary.find(key);
  return found != summary.end() && found->is_string() ? found->get<std::string>() : "";
}

double number_of(const Json& summary, const char* key) {
  const auto found = summary.find(key);
  return found != summary.end() && found->is_number() ? found->get<double>() : -1;
}

std::string lowered(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::size_t count_of(const std::string& name, const std::string& text) {
  if (const auto value = integer_of<std::size_t>(text); value && *value <= most_listed) return *value;
  throw Refusal(400, fmt::format("{} is '{}'", name, beginning_of(text)), "so nobody can tell how many are meant",
                fmt::format("give a whole number up to {}", most_listed));
}

bool is_found(const Json& summary, const HistoryQuery& query) {
  const std::string name = text_of(summary, "name");
  if (!query.job.empty() && job_of(name) != query.job) return false;
  const std::string wanted = lowered(query.find);
  return lowered(name).find(wanted) != std::string::npos ||
         lowered(text_of(summary, "verdict")).find(wanted) != std::string::npos;
}

/// As a number and a text, of which one is used.
std::pair<double, std::string> key_of(const Json& summary, std::string_view order) {
  if (order == "saving") return {number_of(summary, "saved_share"), ""};
  if (order == "step") return {number_of(summary, "step_ns"), ""};
  if (order == "date") return {0, text_of(summary, "date_utc")};
  if (order == "name") return {0, text_of(summary, "name")};
  const auto severity = std::find(severities.begin(), severities.end(), text_of(summary, "severity"));
  return {static_cast<double>(severity - severities.begin()) * (severity == severities.end() ? -1 : 1), ""};
}

}  // namespace

HistoryQuery parse_history_query(const std::vector<std::pair<std::string, std::string>>& parameters) {
  HistoryQuery query;
  for (const auto& [name, value] : parameters) {
    if (name == "find") {
      query.find = value;
    } else if (name == "job") {
      query.job = value;
    } else if (name == "order") {
      const std::string_view order = std::string_view(value).substr(value.starts_with('-') ? 1 : 0);
      if (std::find(orders.begin(), orders.end(), order) == orders.end())
        throw Refusal(400, fmt::format("order is '{}'", beginning_of(value)), "so nobody can tell what comes first",
                      fmt::format("give one of {}, with '-' before it for the largest first", fmt::join(orders, ", ")));
      query.order = value;
    } else if (name == "limit") {
      query.limit = count_of(name, value);
    } else if (name == "offset") {
      query.offset = count_of(name, value);
    } else {
      throw Refusal(400, fmt::format("there is no parameter '{}'", beginning_of(name)),
                    "so nobody can tell what is asked for", "give find, job, order, limit or offset");
    }
  }
  return query;
}

History history_of(std::vector<Json> summaries, const HistoryQuery& query) {
  std::erase_if(summaries, [&](const Json& summary) { return !is_found(summary, query); });
  const bool descending = query.order.starts_with('-');
  const std::string_view order = std::string_view(query.order).substr(descending ? 1 : 0);
  std::sort(summaries.begin(), summaries.end(),
            [](const Json& a, const Json& b) { return text_of(a, "name") < text_of(b, "name"); });
  std::stable_sort(summaries.begin(), summaries.end(), [&](const Json& a, const Json& b) {
    const bool unreadable_a = a.contains("problem"), unreadable_b = b.contains("problem");
    if (unreadable_a || unreadable_b) return !unreadable_a && unreadable_b;
    return descending ? key_of(b, order) < key_of(a, order) : key_of(a, order) < key_of(b, order);
  });
  History history;
  history.matching = summaries.size();
  const std::size_t first = std::min(query.offset, summaries.size());
  const std::size_t end = first + std::min(query.limit, summaries.size() - first);
  history.summaries.assign(summaries.begin() + static_cast<std::ptrdiff_t>(first),
                           summaries.begin() + static_cast<std::ptrdiff_t>(end));
  return history;
}

std::string job_of(std::string_view name) {
  const auto is_of_run = [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_.:/TZ").find(c) != std::string_view::npos;
  };
  std::size_t end = name.size();
  while (end > 0 && is_of_run(name[end - 1])) --end;
  return std::string(end > 0 ? name.substr(0, end) : name);
}

}  // namespace nsys_explain::serve
