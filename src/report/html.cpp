#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

#include "model/schema/declaration.hpp"
#include "report/json_parts.hpp"
#include "report/page.hpp"

namespace nsys_explain::report {
namespace {

/// Most cells of a table that the page holds; the store has all of them.
constexpr std::size_t shown_cells = 1'300;

/// More steps than this are too many for a picture, and a tenth of a megabyte.
constexpr std::size_t shown_steps = 10'000;

/// Of all lanes, but for those of one step: a twentieth of a page of a thousand trace ranks. Measured, a step of one
/// trace rank takes 70.
constexpr std::size_t most_lane_characters = 150'000;

Json cells(const std::vector<std::int64_t>& values, const std::vector<std::size_t>& rows) {
  Json numbers = Json::array();
  for (const std::size_t r : rows) numbers.push_back(values[r] == no_time ? Json(nullptr) : Json(values[r]));
  return numbers;
}

/// Six digits: more than a picture shows, and half as long.
Json cells(const std::vector<double>& values, const std::vector<std::size_t>& rows) {
  Json numbers = Json::array();
  for (const std::size_t r : rows) numbers.push_back(std::strtod(fmt::format("{:.6g}", values[r]).c_str(), nullptr));
  return numbers;
}

/// Each text once, and which of them stands in each row: names repeat on every trace rank.
Json cells(const TextColumn& values, const std::vector<std::size_t>& rows) {
  Json texts = Json::array(), codes = Json::array();
  std::map<std::uint32_t, std::size_t> known;
  for (const std::size_t r : rows) {
    const auto [entry, is_new] = known.try_emplace(values.codes()[r], known.size());
    if (is_new) texts.push_back(shortened(values[r]));
    codes.push_back(entry->second);
  }
  return {{"texts", std::move(texts)}, {"codes", std::move(codes)}};
}

std::vector<std::size_t> all_rows(const Table& table) {
  std::vector<std::size_t> rows(table.row_count());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return rows;
}

/// The rows that the page holds of a long table: the first ones of every trace rank where it has that column, and where
/// that leaves hardly any, those of the trace ranks that the page follows; else the first ones. `table` may lack rows
/// beyond the most that are shown of a trace rank.
std::vector<std::size_t> rows_to_show(const Table& table, std::size_t rows_in_all,
                                      const std::set<std::int64_t>& followed) {
  const std::size_t limit = most_shown_rows(table.schema);
  if (rows_in_all <= limit) return all_rows(table);
  std::vector<std::size_t> rows;
  const auto& columns = table.schema.columns;
  if (columns.empty() || columns.front().name != "trace_rank") {
    rows = all_rows(table);
    rows.resize(limit);
    return rows;
  }
  const auto& ranks = column(table, schema::trace_rank);
  const std::size_t distinct = std::set<std::int64_t>(ranks.begin(), ranks.end()).size();
  const bool of_all = shows_every_rank(table.schema, rows_in_all, distinct);
  const std::size_t each = std::max<std::size_t>(1, limit / (of_all ? distinct : followed.size()));
  std::map<std::int64_t, std::size_t> taken;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if ((of_all || followed.contains(ranks[r])) && ++taken[ranks[r]] <= each) rows.push_back(r);
  return rows;
}

Json table(const Table& table, std::size_t rows_in_all, const std::vector<std::size_t>& rows) {
  Json columns = Json::array(), values = Json::array();
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const ColumnSchema& column = table.schema.columns[c];
    columns.push_back({{"name", column.name}, {"unit", column.unit}, {"description", column.description}});
    values.push_back(std::visit([&](const auto& all) { return cells(all, rows); }, table.columns[c]));
  }
  return {{"description", table.schema.description},
          {"columns", std::move(columns)},
          {"values", std::move(values)},
          {"rows", rows.size()},
          {"left_out", rows_in_all - rows.size()}};
}

constexpr std::string_view base_64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The map as a text for each trace rank, two characters for a cell: there are half a million cells at a thousand trace
/// ranks. 0, or 1 + 100 x log2 of its microseconds, so within 0.4%, in digits of base 64.
Json matrix(const HeatMap& map, const std::vector<Nanoseconds>& cells) {
  Json rows = Json::array();
  for (std::size_t r = 0; r < map.trace_ranks.size(); ++r) {
    const auto first = cells.begin() + static_cast<std::ptrdiff_t>(r) * map.bins;
    std::string row;
    for (auto cell = first; cell != first + map.bins; ++cell) {
      const double microseconds = std::round(static_cast<double>(*cell) / 1'000);
      const std::int64_t code = microseconds < 1 ? 0 : std::min(1 + std::lround(100 * std::log2(microseconds)), 4'095L);
      row += base_64[static_cast<std::size_t>(code / 64)];
      row += base_64[static_cast<std::size_t>(code % 64)];
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json steps(const StepStarts& steps) {
  if (steps.start_ns.empty() || steps.start_ns.size() > shown_steps) return nullptr;
  return {{"first", steps.first_number}, {"start_ns", steps.start_ns}, {"end_ns", steps.end_ns}};
}

/// The rows of a span, for each trace rank a text of its runs of equal cells: the cell and the run's length less one,
/// in digits of base 64.
std::vector<std::string> lane_rows(const LaneSpan& span, std::size_t bins) {
  std::vector<std::string> rows;
  for (std::size_t first = 0; first < span.cells.size(); first += bins) {
    std::string& row = rows.emplace_back();
    for (std::size_t bin = 0, next = 0; bin < bins; bin = next) {
      const std::uint8_t cell = span.cells[first + bin];
      while (next < bins && next - bin < base_64.size() && span.cells[first + next] == cell) ++next;
      row += base_64[cell];
      row += base_64[next - bin - 1];
    }
  }
  return rows;
}

/// As many spans around the one that is shown first as there is room for.
Json lanes(const RankLanes& lanes) {
  if (lanes.bins == 0) return nullptr;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::size_t> sizes;
  for (const LaneSpan& span : lanes.spans) {
    rows.push_back(lane_rows(span, static_cast<std::size_t>(lanes.bins)));
    sizes.push_back(std::accumulate(rows.back().begin(), rows.back().end(), std::size_t{0},
                                    [](std::size_t sum, const std::string& row) { return sum + row.size(); }));
  }
  std::size_t first = lanes.shown_first, end = first + 1, characters = sizes[first];
  const auto has_room = [&](std::size_t span) {
    if (span >= sizes.size() || characters + sizes[span] > most_lane_characters) return false;
    characters += sizes[span];
    return true;
  };
  for (bool is_wider = true; is_wider;) {
    is_wider = false;
    if (has_room(end)) {
      ++end;
      is_wider = true;
    }
    if (first > 0 && has_room(first - 1)) {
      --first;
      is_wider = true;
    }
  }
  Json spans = Json::array();
  for (std::size_t s = first; s < end; ++s) {
    const LaneSpan& span = lanes.spans[s];
    spans.push_back({{"step", span.step},
                     {"start_ns", span.window.start_ns},
                     {"end_ns", span.window.end_ns},
                     {"rows", std::move(rows[s])}});
  }
  return {{"bins", lanes.bins},
          {"ranks", lanes.trace_ranks},
          {"first", lanes.shown_first - first},
          {"spans", std::move(spans)}};
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

/// Columns by name, all of the same length.
template <std::size_t N>
Json no_rows(const std::array<const char*, N>& names) {
  Json columns = Json::object();
  for (const char* name : names) columns[name] = Json::array();
  return columns;
}

/// Column by column, so that no name is repeated: the collectives, and the arrivals of all of them one after another,
/// `listed` of each. An arrival's enter counts from the first enter on; its exit is enter + wait + transfer.
Json collectives(const std::vector<CollectiveDetail>& details) {
  Json all = no_rows(std::array{"instance", "communicator", "sequence", "operation", "bytes", "members",
                                "first_enter_ns", "last_enter_ns", "skew_uncertainty_ns", "last_trace_rank", "resolved",
                                "wait_ns", "left_out", "listed"});
  Json arrivals = no_rows(
      std::array{"trace_rank", "enter_ns", "wait_ns", "transfer_ns", "own_lateness_ns", "inherited_lateness_ns"});
  for (const CollectiveDetail& detail : details) {
    const Instance& summary = detail.summary;
    all["instance"].push_back(detail.instance);
    all["communicator"].push_back(detail.communicator);
    all["sequence"].push_back(summary.sequence);
    all["operation"].push_back(operation_name(summary.operation));
    all["bytes"].push_back(summary.message_bytes);
    all["members"].push_back(summary.members);
    all["first_enter_ns"].push_back(summary.first_enter.ns);
    all["last_enter_ns"].push_back(summary.last_enter.ns);
    all["skew_uncertainty_ns"].push_back(summary.skew_uncertainty_ns);
    all["last_trace_rank"].push_back(summary.last_trace_rank);
    all["resolved"].push_back(summary.resolved ? 1 : 0);
    all["wait_ns"].push_back(detail.wait_ns);
    all["left_out"].push_back(detail.left_out);
    all["listed"].push_back(detail.arrivals.size());
    for (const InstanceArrival& one : detail.arrivals) {
      arrivals["trace_rank"].push_back(one.trace_rank);
      arrivals["enter_ns"].push_back(one.enter - summary.first_enter);
      arrivals["wait_ns"].push_back(wait_ns(summary, one));
      arrivals["transfer_ns"].push_back(transfer_ns(summary, one));
      arrivals["own_lateness_ns"].push_back(one.own_lateness_ns);
      arrivals["inherited_lateness_ns"].push_back(inherited_lateness_ns(summary, one));
    }
  }
  all["arrivals"] = std::move(arrivals);
  return all;
}

/// Texts of which most occur more than once: each once, and which of them where. Other values as they are.
Json each_text_once(Json values) {
  const auto is_text = [](const Json& value) { return value.is_string(); };
  if (!std::all_of(values.begin(), values.end(), is_text)) return values;
  std::map<std::string, std::size_t> codes;
  Json texts = Json::array(), of_values = Json::array();
  for (const Json& value : values) {
    const auto [code, is_new] = codes.try_emplace(value.get<std::string>(), codes.size());
    if (is_new) texts.push_back(value);
    of_values.push_back(code->second);
  }
  if (2 * texts.size() > values.size()) return values;
  return {{"texts", std::move(texts)}, {"codes", std::move(of_values)}};
}

/// Objects with the same members, column by column: no name is repeated.
Json columns_of(const Json& rows) {
  Json columns = Json::object();
  for (const Json& row : rows)
    for (const auto& [name, value] : row.items()) columns[name].push_back(value);
  for (Json& column : columns) column = each_text_once(std::move(column));
  return columns;
}

/// By finding, the view of the page that holds its evidence; the table itself where it has no other.
Json finding_views(const std::vector<ShownTable>& tables) {
  Json views = Json::object();
  for (const ShownTable& shown : tables)
    for (const std::string_view finding : shown.findings)
      if (!shown.view.empty()) views[std::string(finding)] = shown.view;
  for (const ShownTable& shown : tables)
    for (const std::string_view finding : shown.findings)
      if (!views.contains(finding)) views[std::string(finding)] = fmt::format("tables-{}", shown.table);
  return views;
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

/// The text of an object, member by member, so that no more than one of them is held as a tree.
class ObjectText {
 public:
  explicit ObjectText(std::string& text) : text_(text) { text_ += '{'; }
  ~ObjectText() { text_ += '}'; }
  ObjectText(const ObjectText&) = delete;
  ObjectText& operator=(const ObjectText&) = delete;

  /// The value of the member is what is written next.
  std::string& name(std::string_view name) {
    if (!is_empty_) text_ += ',';
    is_empty_ = false;
    text_ += script_safe(Json(name).dump());
    return text_ += ':';
  }
  void add(std::string_view name, const Json& value) {
    this->name(name) += script_safe(value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

 private:
  std::string& text_;
  bool is_empty_ = true;
};

/// report.json, but for what the page takes from tables.
void write_report(const JobReport& report, std::string& text) {
  constexpr std::array in_tables = {"activity", "sessions", "exposed_communication"};
  ObjectText object(text);
  for (const JsonSection& section : json_sections(report)) {
    if (std::find(in_tables.begin(), in_tables.end(), section.name) != in_tables.end()) continue;
    Json value = section.make();
    if (section.name == "ranks" || section.name == "trace_ranks" || section.name == "inputs") value = columns_of(value);
    if (section.name == "clock") value["sessions"] = columns_of(value["sessions"]);
    object.add(section.name, value);
  }
}

}  // namespace

bool has_html() {
  return !page_before_data().empty();
}

std::size_t most_shown_rows(const TableSchema& schema) {
  return shown_cells / std::max<std::size_t>(1, schema.columns.size());
}

bool shows_every_rank(const TableSchema& schema, std::size_t rows_in_all, std::size_t trace_ranks) {
  constexpr std::size_t too_few = 4;
  const std::size_t limit = most_shown_rows(schema);
  return rows_in_all <= limit || limit / trace_ranks >= too_few;
}

std::string to_html(const JobReport& report, const std::map<std::string, LongTable>& long_tables) {
  std::string page(page_before_data());
  {
    ObjectText data(page);
    write_report(report, data.name("report"));
    data.add("charted_ranks", charted_ranks(report).size());
    data.add("heat", heat(report.detail.heat_map));
    data.add("lanes", lanes(report.detail.lanes));
    data.add("steps", steps(report.detail.steps));
    data.add("finding_views", finding_views(report.shown));
    data.add("moments", moments_json(report.detail.moments));
    data.add("collectives", collectives(report.detail.collectives));
    const std::set<std::int64_t> followed = ranks_to_follow(report);
    {
      ObjectText tables(data.name("tables"));
      for (const Table& one : report.tables) {
        const auto found = long_tables.find(one.schema.name);
        const Table& held = found == long_tables.end() ? one : found->second.first_rows;
        const std::size_t rows = found == long_tables.end() ? one.row_count() : found->second.rows;
        tables.add(one.schema.name, table(held, rows, rows_to_show(held, rows, followed)));
      }
    }
    ObjectText views(data.name("views"));
    for (const Table& one : page_views(report, long_tables))
      views.add(one.schema.name, table(one, one.row_count(), all_rows(one)));
  }
  page += page_after_data();
  return page;
}

}  // namespace nsys_explain::report
