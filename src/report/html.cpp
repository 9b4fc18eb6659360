#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <variant>

#include <nlohmann/json.hpp>

#include "nsys_explain/report/report.hpp"
#include "page.hpp"

namespace nsys_explain::report {
namespace {

using Json = nlohmann::ordered_json;

/// Most cells of a table that the page holds; the store has all of them.
constexpr std::size_t shown_cells = 12'000;

/// Texts are cut there: a mangled name can have thousands of characters.
constexpr std::size_t shown_characters = 200;

std::string cut(const std::string& text) {
  if (text.size() <= shown_characters) return text;
  std::size_t end = shown_characters;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // not within a character
  return text.substr(0, end) + "...";
}

Json value(std::int64_t number) {
  return number == no_time ? Json(nullptr) : Json(number);
}
Json value(double number) {
  return Json(number);
}
Json value(const std::string& text) {
  return Json(cut(text));
}

/// The rows that the page holds of a long table: the first ones of every trace rank where it has that column, so that
/// no rank is missing; else the first ones.
std::vector<std::size_t> shown_rows(const Table& table) {
  const std::size_t limit = shown_cells / std::max<std::size_t>(1, table.columns.size());
  std::vector<std::size_t> rows;
  const auto& columns = table.schema.columns;
  const bool by_rank = !columns.empty() && columns.front().name == "trace_rank";
  if (!by_rank || table.row_count() <= limit) {
    rows.resize(std::min(table.row_count(), limit));
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    return rows;
  }
  const auto& ranks = column<std::int64_t>(table, "trace_rank");
  const std::size_t distinct = std::set<std::int64_t>(ranks.begin(), ranks.end()).size();
  const std::size_t each = std::max<std::size_t>(1, limit / distinct);
  std::map<std::int64_t, std::size_t> taken;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (++taken[ranks[r]] <= each) rows.push_back(r);
  }
  return rows;
}

Json table(const Table& table) {
  const std::vector<std::size_t> rows = shown_rows(table);
  Json columns = Json::array(), values = Json::array();
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const ColumnSchema& column = table.schema.columns[c];
    columns.push_back({{"name", column.name}, {"unit", column.unit}, {"description", column.description}});
    Json cells = Json::array();
    std::visit(
        [&](const auto& all) {
          for (const std::size_t r : rows) cells.push_back(value(all[r]));
        },
        table.columns[c]);
    values.push_back(std::move(cells));
  }
  return {{"description", table.schema.description},
          {"columns", std::move(columns)},
          {"values", std::move(values)},
          {"rows", rows.size()},
          {"left_out", table.row_count() - rows.size()}};
}

/// Rows of the map as arrays; a reader needs no offsets.
Json matrix(const HeatMap& map, const std::vector<Nanoseconds>& cells) {
  Json rows = Json::array();
  for (std::size_t r = 0; r < map.trace_ranks.size(); ++r) {
    const auto first = cells.begin() + static_cast<std::ptrdiff_t>(r) * map.bins;
    rows.push_back(std::vector<Nanoseconds>(first, first + map.bins));
  }
  return rows;
}

Json heat(const HeatMap& map) {
  if (map.bins == 0) return nullptr;
  return {{"start_ns", map.start_ns},
          {"bin_ns", map.bin_ns},
          {"bins", map.bins},
          {"ranks", map.trace_ranks},
          {"wait", matrix(map, map.wait_ns)},
          {"own", matrix(map, map.own_lateness_ns)}};
}

/// Column by column, and enter and exit from the first enter on: short numbers, no repeated names.
Json arrivals(const CollectiveDetail& detail) {
  Json columns = {{"trace_rank", Json::array()},
                  {"enter_ns", Json::array()},
                  {"exit_ns", Json::array()},
                  {"wait_ns", Json::array()},
                  {"transfer_ns", Json::array()},
                  {"own_lateness_ns", Json::array()},
                  {"inherited_lateness_ns", Json::array()}};
  for (const InstanceArrival& one : detail.arrivals) {
    columns["trace_rank"].push_back(one.trace_rank);
    columns["enter_ns"].push_back(one.enter_ns - detail.summary.first_enter_ns);
    columns["exit_ns"].push_back(one.exit_ns - detail.summary.first_enter_ns);
    columns["wait_ns"].push_back(one.wait_ns);
    columns["transfer_ns"].push_back(one.transfer_ns);
    columns["own_lateness_ns"].push_back(one.own_lateness_ns);
    columns["inherited_lateness_ns"].push_back(one.inherited_lateness_ns);
  }
  return columns;
}

Json collective(const CollectiveDetail& detail) {
  const Instance& summary = detail.summary;
  return {{"instance", detail.instance},
          {"communicator", detail.communicator},
          {"sequence", summary.sequence},
          {"operation", operation_name(summary.operation)},
          {"bytes", summary.message_bytes},
          {"members", summary.members},
          {"first_enter_ns", summary.first_enter_ns},
          {"last_enter_ns", summary.last_enter_ns},
          {"skew_uncertainty_ns", summary.skew_uncertainty_ns},
          {"last_trace_rank", summary.last_trace_rank},
          {"resolved", summary.resolved},
          {"wait_ns", detail.wait_ns},
          {"left_out", detail.left_out},
          {"arrivals", arrivals(detail)}};
}

/// JSON inside of a script element: '<' would let a name end the element.
std::string script_safe(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

bool has_html() {
  return !page_before_data().empty();
}

std::string to_html(const JobReport& report) {
  Json data;
  data["report"] = Json::parse(to_json(report));
  data["heat"] = heat(report.detail.heat_map);
  data["collectives"] = Json::array();
  for (const CollectiveDetail& detail : report.detail.costliest) data["collectives"].push_back(collective(detail));
  data["tables"] = Json::object();
  for (const Table& one : report.tables) data["tables"][one.schema.name] = table(one);
  std::string page(page_before_data());
  page += script_safe(data.dump(-1, ' ', false, Json::error_handler_t::replace));
  page += page_after_data();
  return page;
}

}  // namespace nsys_explain::report
