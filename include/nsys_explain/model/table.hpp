#pragma once

#include <array>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "nsys_explain/model/text_column.hpp"

namespace nsys_explain {

/// `time`: a point in time in nanoseconds (not a duration), an integer to the store; it moves with the clock.
/// `text`: of any length, since traces and users set no limit.
enum class ColumnKind : std::uint8_t { integer, time, real, text };

struct ColumnSchema {
  std::string name;  ///< ends in its unit where it has one: _ns, _bytes, _gbs, _percent
  ColumnKind kind = ColumnKind::integer;
  std::string unit;  ///< "ns", "bytes", "GB/s", "%", or "" for counts, ids and names
  std::string description;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, kind, unit, description);
  }
};

/// Columns in their order. Copies share them, since every trace rank has the same tables: who changes one gets its own.
class ColumnSchemas {
 public:
  using value_type = ColumnSchema;
  using const_iterator = std::vector<ColumnSchema>::const_iterator;

  ColumnSchemas() = default;
  ColumnSchemas(std::vector<ColumnSchema> columns)
      : columns_(std::make_shared<std::vector<ColumnSchema>>(std::move(columns))) {}
  ColumnSchemas(std::initializer_list<ColumnSchema> columns) : ColumnSchemas(std::vector<ColumnSchema>(columns)) {}

  const_iterator begin() const { return columns_->begin(); }
  const_iterator end() const { return columns_->end(); }
  std::size_t size() const { return columns_->size(); }
  bool empty() const { return columns_->empty(); }
  const ColumnSchema& operator[](std::size_t c) const { return (*columns_)[c]; }
  const ColumnSchema& front() const { return columns_->front(); }
  const ColumnSchema& back() const { return columns_->back(); }
  std::vector<ColumnSchema>& own() {
    if (columns_.use_count() > 1) columns_ = std::make_shared<std::vector<ColumnSchema>>(*columns_);
    return *columns_;
  }
  void push_back(ColumnSchema column) { own().push_back(std::move(column)); }
  void push_front(ColumnSchema column) { own().insert(begin(), std::move(column)); }

  template <class Archive>
  void save(Archive& archive) const {
    archive(*columns_);
  }
  template <class Archive>
  void load(Archive& archive) {
    std::vector<ColumnSchema> columns;
    archive(columns);
    *this = std::move(columns);
  }

 private:
  static std::shared_ptr<std::vector<ColumnSchema>> none() {
    static const auto shared = std::make_shared<std::vector<ColumnSchema>>();
    return shared;
  }

  std::shared_ptr<std::vector<ColumnSchema>> columns_ = none();
};

struct TableSchema {
  std::string name;
  std::string description;
  ColumnSchemas columns;

  /// Throws std::out_of_range where there is no such column.
  std::size_t index_of(std::string_view column) const;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, description, columns);
  }
};

/// Values of one column; the alternative follows from ColumnKind: integers for integer and time, reals, and
/// texts for text.
using ColumnData = std::variant<std::vector<std::int64_t>, std::vector<double>, TextColumn>;

/// The alternative of ColumnData that holds values of a type.
template <class Value>
using ColumnOf = std::conditional_t<std::is_same_v<Value, std::string>, TextColumn, std::vector<Value>>;

/// A table, or one chunk of a long table: columns of equal length in the order of the schema.
/// The store and the CSV files write the same tables.
struct Table {
  TableSchema schema;
  std::vector<ColumnData> columns;

  std::size_t row_count() const;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(schema, columns);
  }
};

/// An empty table with the right alternative in every column.
Table make_table(TableSchema schema);

/// Appends the chosen rows of a table of the same schema.
void append_rows(Table& table, const Table& other, std::span<const std::size_t> rows);

/// The table of that name; nullptr where there is none.
const Table* find_table(const std::vector<Table>& tables, std::string_view name);

/// The values of a column by its name; throws std::out_of_range or std::bad_variant_access where the schema differs.
template <class Value>
const ColumnOf<Value>& column(const Table& table, std::string_view name) {
  return std::get<ColumnOf<Value>>(table.columns[table.schema.index_of(name)]);
}

/// Appends values to a table, column by column from left to right, then the next row.
class RowWriter {
 public:
  explicit RowWriter(Table& table) : table_(table) {}
  RowWriter& operator<<(std::int64_t value) { return put(value); }
  RowWriter& operator<<(double value) { return put(value); }
  RowWriter& operator<<(std::string_view value) { return put(value); }
  RowWriter& operator<<(const char* value) { return put(std::string_view(value)); }  // or it would be taken for a bool
  RowWriter& operator<<(bool value) { return put(std::int64_t{value ? 1 : 0}); }

 private:
  template <class Value>
  RowWriter& put(Value value) {
    using Column = std::conditional_t<std::is_same_v<Value, std::string_view>, TextColumn, std::vector<Value>>;
    std::get<Column>(table_.columns[column_]).push_back(value);
    column_ = (column_ + 1) % table_.columns.size();
    return *this;
  }
  Table& table_;
  std::size_t column_ = 0;
};

/// How much a table will hold, known before its first row is written.
struct TableExtent {
  std::size_t rows = 0;
  std::vector<std::size_t> longest_texts;  ///< of each column, bytes; 0 for numbers

  template <class Archive>
  void serialize(Archive& archive) {
    archive(rows, longest_texts);
  }
};

TableExtent extent_of(const Table& table);

/// As docs/outputs.md and the service's answers call it.
constexpr std::string_view column_kind_name(ColumnKind kind) {
  constexpr std::array<std::string_view, 4> names{"integer", "time", "real", "text"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace nsys_explain
