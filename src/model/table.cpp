#include "nsys_explain/model/table.hpp"

#include <bit>
#include <functional>
#include <limits>
#include <stdexcept>

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain {
std::size_t TableSchema::index_of(std::string_view column) const {
  for (std::size_t c = 0; c < columns.size(); ++c)
    if (columns[c].name == column) return c;
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
  for (const Table& table : tables)
    if (table.schema.name == name) return &table;
  return nullptr;
}

TableExtent extent_of(const Table& table) {
  TableExtent extent{table.row_count(), {}};
  for (const ColumnData& column : table.columns) {
    std::size_t longest = 0;
    if (const auto* texts = std::get_if<TextColumn>(&column))
      for (const std::string& text : texts->distinct()) longest = std::max(longest, text.size());
    extent.longest_texts.push_back(longest);
  }
  return extent;
}

void TextColumn::push_back(std::string_view text) {
  const bool is_repeated = !codes_.empty() && distinct_[codes_.back()] == text;
  codes_.push_back(is_repeated ? codes_.back() : code_of(text));
}

TextColumn::TextColumn(std::vector<std::string> distinct, std::vector<std::uint32_t> codes)
    : distinct_(std::move(distinct)), codes_(std::move(codes)) {
  if (std::any_of(codes_.begin(), codes_.end(), [&](std::uint32_t code) { return code >= distinct_.size(); }))
    throw std::out_of_range("a row of a column names a text that is not there");
}

void TextColumn::append(const TextColumn& other, std::size_t first, std::size_t count) {
  constexpr std::uint32_t unknown = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> own_code(other.distinct_.size(), unknown);
  const std::size_t before = codes_.size();
  reserve_sparingly(codes_, count);
  codes_.resize(before + count);
  for (std::size_t row = 0; row < count; ++row) {
    const std::uint32_t others = other.codes_[first + row];
    if (own_code[others] == unknown) own_code[others] = code_of(other.distinct_[others]);
    codes_[before + row] = own_code[others];
  }
}

std::uint32_t TextColumn::code_of(std::string_view text) {
  if (slots_.size() <= 2 * distinct_.size()) rebuild_slots();
  std::uint32_t& slot = slots_[slot_of(text)];
  if (slot == 0) {
    distinct_.emplace_back(text);
    slot = static_cast<std::uint32_t>(distinct_.size());
  }
  return slot - 1;
}

std::size_t TextColumn::slot_of(std::string_view text) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = std::hash<std::string_view>()(text) & mask;
  while (slots_[at] != 0 && distinct_[slots_[at] - 1] != text) at = (at + 1) & mask;
  return at;
}

void TextColumn::rebuild_slots() {
  constexpr std::size_t fewest = 8;
  slots_.assign(std::max(fewest, std::bit_ceil(2 * distinct_.size() + 1) * 2), 0);
  for (std::uint32_t code = 0; code < distinct_.size(); ++code) slots_[slot_of(distinct_[code])] = code + 1;
}

}  // namespace nsys_explain
