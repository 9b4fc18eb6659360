#include "nsys_explain/model/table.hpp"

#include <algorithm>
#include <stdexcept>

namespace nsys_explain {

std::size_t TableSchema::index_of(std::string_view column) const {
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].name == column) return c;
  }
  throw std::out_of_range("table " + name + " has no column " + std::string(column));
}

std::size_t Table::row_count() const {
  if (columns.empty()) return 0;
  return std::visit([](const auto& values) { return values.size(); }, columns.front());
}

Table make_table(TableSchema schema) {
  Table table{std::move(schema), {}};
  table.columns.reserve(table.schema.columns.size());
  for (const ColumnSchema& column : table.schema.columns) {
    switch (column.kind) {
      case ColumnKind::integer:
      case ColumnKind::time:
        table.columns.emplace_back(std::vector<std::int64_t>{});
        break;
      case ColumnKind::real:
        table.columns.emplace_back(std::vector<double>{});
        break;
      case ColumnKind::text:
        table.columns.emplace_back(TextColumn{});
        break;
    }
  }
  return table;
}

void append_rows(Table& table, const Table& other, std::span<const std::size_t> rows) {
  for (std::size_t c = 0; c < other.columns.size(); ++c) {
    std::visit(
        [&](const auto& values) {
          auto& all = std::get<std::decay_t<decltype(values)>>(table.columns[c]);
          for (const std::size_t row : rows) all.push_back(values[row]);
        },
        other.columns[c]);
  }
}

const Table* find_table(const std::vector<Table>& tables, std::string_view name) {
  for (const Table& table : tables) {
    if (table.schema.name == name) return &table;
  }
  return nullptr;
}

TableExtent extent_of(const Table& table) {
  TableExtent extent{table.row_count(), {}};
  for (const ColumnData& column : table.columns) {
    std::size_t longest = 0;
    if (const auto* texts = std::get_if<TextColumn>(&column)) {
      for (const std::string& text : texts->distinct()) longest = std::max(longest, text.size());
    }
    extent.longest_texts.push_back(longest);
  }
  return extent;
}

}  // namespace nsys_explain
