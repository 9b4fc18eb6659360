#include "store/column_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "store/encoded_rows.hpp"

namespace nsys_explain::store {
namespace {

/// Most bytes of a column that is stored in its header instead: most tables are short, and an index and a compressed
/// chunk would take more room and four times as long.
constexpr std::size_t compact_bytes = std::size_t{8} * 1024;

/// What HDF5 stores in place of a text of any length.
constexpr std::size_t text_reference_bytes = 16;

std::size_t text_width(std::size_t longest) {
  return longest > most_text_width ? 0 : std::max<std::size_t>(longest, 1);
}

bool has_values_of(ColumnKind kind, const ColumnData& values) {
  switch (kind) {
    case ColumnKind::integer:
    case ColumnKind::time:
      return std::holds_alternative<std::vector<std::int64_t>>(values);
    case ColumnKind::real:
      return std::holds_alternative<std::vector<double>>(values);
    case ColumnKind::text:
      break;
  }
  return std::holds_alternative<TextColumn>(values);
}

void check_texts(const std::string& name, const TextColumn& texts, std::size_t width) {
  for (const std::string& text : texts.distinct()) {
    if (text.size() <= width) continue;
    throw std::invalid_argument(fmt::format(
        "column {} holds a text of {} bytes, of which the announced width of {} would cut the end; announce the longest text",
        name, text.size(), width));
  }
}

}  // namespace

ColumnLayout layout_of(ColumnKind kind, std::size_t rows, std::size_t longest_text) {
  ColumnLayout layout{.width = sizeof(std::int64_t), .is_text = kind == ColumnKind::text};
  if (layout.is_text) layout.width = text_width(longest_text);
  const std::size_t row_bytes = layout.width > 0 ? layout.width : text_reference_bytes;
  if (rows > compact_bytes / row_bytes) {
    layout.chunk_rows = std::min({std::bit_floor(chunk_bytes / row_bytes), slab_rows, rows});
  }
  return layout;
}

void check_rows(const Table& rows, const TableSchema& schema, const std::vector<std::size_t>& longest_texts) {
  if (rows.columns.size() != schema.columns.size()) {
    throw std::invalid_argument(fmt::format(
        "a chunk of table '{}' has {} columns instead of {}, so values would move to other columns; make it with make_table",
        schema.name, rows.columns.size(), schema.columns.size()));
  }
  for (std::size_t c = 0; c < schema.columns.size(); ++c) {
    const ColumnSchema& column = schema.columns[c];
    const std::string name = fmt::format("{}/{}", schema.name, column.name);
    const std::size_t length = std::visit([](const auto& values) { return values.size(); }, rows.columns[c]);
    if (length != rows.row_count()) {
      throw std::invalid_argument(fmt::format(
          "column '{}' of table '{}' has {} rows where the first has {}, so rows would not belong together; fill all columns alike",
          column.name, schema.name, length, rows.row_count()));
    }
    if (!has_values_of(column.kind, rows.columns[c])) {
      throw std::invalid_argument(fmt::format(
          "column {} holds values of another type than its schema says, so they cannot be stored; make the chunk with make_table",
          name));
    }
    const ColumnLayout layout = layout_of(column.kind, length, longest_texts.at(c));
    if (layout.is_text && layout.width > 0) {
      check_texts(name, std::get<TextColumn>(rows.columns[c]), layout.width);
    }
  }
}

}  // namespace nsys_explain::store
