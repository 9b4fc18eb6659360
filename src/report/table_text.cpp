#include "report/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/text.hpp"
#include "nsys_explain/model/utf8.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

constexpr std::string_view bold = "\x1b[1m";
constexpr std::string_view dim = "\x1b[2m";
constexpr std::string_view plain = "\x1b[0m";

/// By TimeUnit; so many decimals show every nanosecond.
struct UnitOfTime {
  std::string_view name;
  double in_ns;
  int decimals;
};
constexpr std::array<UnitOfTime, 4> units_of_time{{{"", 1, 0}, {"us", 1e3, 3}, {"ms", 1e6, 6}, {"s", 1e9, 9}}};

std::vector<double> in_unit(const std::vector<std::int64_t>& values, double in_ns) {
  std::vector<double> result;
  for (const std::int64_t value : values)
    result.push_back(value == no_time ? std::nan("") : static_cast<double>(value) / in_ns);
  return result;
}

/// Columns say so: "-1: not known", "periodic: steps between delays; else -1".
bool is_missing(const ColumnSchema& column, double value) {
  const std::string_view text = column.description;
  return value == -1 && (text.ends_with("-1") || text.find("-1:") != std::string_view::npos ||
                         text.find("-1 where") != std::string_view::npos);
}

std::string cell(const ColumnSchema& column, std::int64_t value) {
  if (value == no_time || is_missing(column, static_cast<double>(value))) return "-";
  if (column.unit == "ns") return format_duration(value);
  if (column.unit == "bytes") return value < 0 ? "-" : format_bytes(value);
  return fmt::format("{}", value);
}

std::string cell(const ColumnSchema& column, double value) {
  if (!std::isfinite(value) || is_missing(column, value)) return "-";
  if (column.name == "p_value" || column.name.ends_with("_p_value")) return p_value_text(value);
  for (const UnitOfTime& unit : units_of_time)
    if (column.unit == unit.name && unit.decimals > 0) return fmt::format("{:.{}f}", value, unit.decimals);
  if (column.unit == "ns") return format_duration(std::llround(value));
  return fmt::format("{:.4g}", value);
}

/// A text without its middle; texts that would look alike keep their beginning and what tells them apart.
std::vector<std::string> shown_texts(const TextColumn& values, std::size_t width) {
  std::vector<std::string> shown;
  std::map<std::string, std::set<std::string>> alike;
  for (const std::string& value : values) {
    shown.push_back(plain_text(value.empty() ? "-" : value, width));
    alike[shown.back()].insert(plain_text(value, std::string::npos));
  }
  for (std::size_t row = 0; row < shown.size(); ++row) {
    const std::set<std::string>& twins = alike.at(shown[row]);
    if (twins.size() < 2) continue;
    const std::string &first = *twins.begin(), &last = *twins.rbegin();  // sorted: all share what these two do
    const auto end = first.begin() + static_cast<std::ptrdiff_t>(std::min(first.size(), last.size()));
    const auto same = static_cast<std::size_t>(std::mismatch(first.begin(), end, last.begin()).first - first.begin());
    const std::string whole = plain_text(values[row], std::string::npos);
    const std::size_t head = width / 3, from = std::max(head, same - std::min<std::size_t>(same, 3));
    // Cut within a character, it is shown as one that cannot be read.
    const std::string cut = whole.substr(0, head) + "..." + whole.substr(std::min(from, whole.size()));
    shown[row] = plain_text(cut.size() <= width ? cut : cut.substr(0, width - 3) + "...", width);
  }
  return shown;
}

bool is_text(ColumnKind kind) {
  return kind == ColumnKind::text;
}

/// Text padded to a width in characters.
std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string space(width - std::min(width, text_width(text)), ' ');
  return left ? text + space : space + text;
}

nlohmann::ordered_json json_value(const ColumnSchema&, std::int64_t value) {
  return value == no_time ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(value);
}
/// Six digits: what follows is what rounding leaves. Times of in_time_unit keep every nanosecond.
nlohmann::ordered_json json_value(const ColumnSchema& column, double value) {
  const bool is_time = std::any_of(units_of_time.begin(), units_of_time.end(), [&](const UnitOfTime& unit) {
    return unit.decimals > 0 && column.unit == unit.name;
  });
  return is_time || !std::isfinite(value) ? value : std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}
nlohmann::ordered_json json_value(const ColumnSchema&, const std::string& value) {
  return value;
}

Table with_rows(const Table& table, const std::vector<std::size_t>& rows) {
  Table chosen = make_table(table.schema);
  append_rows(chosen, table, rows);
  return chosen;
}

}  // namespace

std::string table_text(const Table& table, const TextStyle& style) {
  const std::size_t rows = table.row_count();
  std::string heading;
  std::vector<std::vector<std::string>> cells;
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const ColumnSchema& column = table.schema.columns[c];
    std::vector<std::string> shown;
    std::size_t width = text_width(column.name);
    std::visit(
        [&](const auto& values) {
          if constexpr (std::is_same_v<std::decay_t<decltype(values)>, TextColumn>) {
            shown = shown_texts(values, style.cell_width);
          } else {
            for (const auto& value : values) shown.push_back(plain_text(cell(column, value), style.cell_width));
          }
        },
        table.columns[c]);
    for (const std::string& one : shown) width = std::max(width, text_width(one));
    heading += (c == 0 ? "" : "  ") + padded(column.name, width, is_text(column.kind));
    cells.push_back(std::move(shown));
    widths.push_back(width);
  }
  std::string text = style.colour ? fmt::format("{}{}{}\n", bold, heading, plain) : heading + "\n";
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const bool last = c + 1 == cells.size();
      const bool left = is_text(table.schema.columns[c].kind);
      const std::string value = last && left ? cells[c][row] : padded(cells[c][row], widths[c], left);
      const bool nothing = cells[c][row] == "-";
      if (c > 0) text += "  ";
      text += style.colour && nothing ? fmt::format("{}{}{}", dim, value, plain) : value;
    }
    text += '\n';
  }
  return text;
}

std::string table_json(const Table& table) {
  auto array = nlohmann::ordered_json::array();
  for (std::size_t row = 0; row < table.row_count(); ++row) {
    nlohmann::ordered_json object;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const ColumnSchema& column = table.schema.columns[c];
      std::visit([&](const auto& values) { object[column.name] = json_value(column, values[row]); }, table.columns[c]);
    }
    array.push_back(std::move(object));
  }
  return array.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

Table in_time_unit(Table table, TimeUnit unit) {
  const UnitOfTime& to = units_of_time[static_cast<std::size_t>(unit)];
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    ColumnSchema& column = table.schema.columns.own()[c];
    if (column.unit != "ns") continue;
    column.unit = to.name;
    if (unit == TimeUnit::nsec) continue;
    if (column.name.ends_with("_ns")) column.name.replace(column.name.size() - 2, 2, to.name);
    if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&table.columns[c])) {
      column.kind = ColumnKind::real;
      table.columns[c] = in_unit(*integers, to.in_ns);
    } else if (auto* reals = std::get_if<std::vector<double>>(&table.columns[c])) {
      for (double& value : *reals) value /= to.in_ns;
    }
  }
  return table;
}

Table rows_where(const Table& table, std::string_view name, std::int64_t value) {
  const auto& values = column<std::int64_t>(table, name);
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < values.size(); ++row)
    if (values[row] == value) rows.push_back(row);
  return with_rows(table, rows);
}

Table largest_rows(const Table& table, std::string_view name, std::size_t count) {
  const auto& values = column<std::int64_t>(table, name);
  std::vector<std::size_t> rows(values.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  rows.resize(std::min(count, rows.size()));
  return with_rows(table, rows);
}

Table first_rows(const Table& table, std::size_t count) {
  std::vector<std::size_t> rows(std::min(count, table.row_count()));
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return with_rows(table, rows);
}

namespace {

constexpr std::string_view end_of_record = "\r\n";  // RFC 4180

/// A spreadsheet runs a cell that starts with one of these as a formula (OWASP, "CSV injection").
bool looks_like_a_formula(std::string_view text) {
  return !text.empty() && std::string_view("=+-@\t\r\n").find(text.front()) != std::string_view::npos;
}

/// A table is looked at in a terminal, too: there names must not do anything.
void write_text(std::string& out, const std::string& value) {
  std::string text = visible_text(valid_utf8(value));
  if (looks_like_a_formula(value)) text.insert(0, 1, '\'');
  if (text.find_first_of("\",\n") == std::string::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

/// Missing values are empty fields. Numbers are never touched, negative ones included.
void write_value(std::string& out, std::int64_t value) {
  if (value != no_time) fmt::format_to(std::back_inserter(out), "{}", value);
}
void write_value(std::string& out, double value) {
  if (std::isfinite(value)) fmt::format_to(std::back_inserter(out), "{}", value);
}
void write_value(std::string& out, const std::string& value) {
  write_text(out, value);
}

void check_equal_lengths(const Table& chunk) {
  for (const ColumnData& column : chunk.columns) {
    const std::size_t rows = std::visit([](const auto& values) { return values.size(); }, column);
    if (rows == chunk.row_count() && chunk.columns.size() == chunk.schema.columns.size()) continue;
    throw std::invalid_argument(fmt::format(
        "the columns of table '{}' differ in length or number from its schema, so rows would not belong together; fill all columns of make_table alike",
        chunk.schema.name));
  }
}

}  // namespace

std::string csv_header(const TableSchema& schema) {
  std::string out;
  for (std::size_t c = 0; c < schema.columns.size(); ++c) {
    if (c > 0) out += ',';
    write_text(out, schema.columns[c].name);
  }
  return out.append(end_of_record);
}

std::string csv_rows(const Table& chunk) {
  check_equal_lengths(chunk);
  std::string out;
  for (std::size_t row = 0; row < chunk.row_count(); ++row) {
    const std::size_t start = out.size();
    for (std::size_t c = 0; c < chunk.columns.size(); ++c) {
      if (c > 0) out += ',';
      std::visit([&](const auto& values) { write_value(out, values[row]); }, chunk.columns[c]);
    }
    if (out.size() == start) out += "\"\"";  // a blank line would be skipped by readers
    out += end_of_record;
  }
  return out;
}

}  // namespace nsys_explain::report
