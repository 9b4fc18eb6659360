#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "nsys_explain/model/utf8.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

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
