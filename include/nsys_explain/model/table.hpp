#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace nsys_explain {

/// `label`: short text from a small set, stored with a fixed width (compresses well). `text`: any length.
enum class ColumnKind : std::uint8_t { integer, real, label, text };

struct ColumnSchema {
  std::string name;  ///< ends in its unit where it has one: _ns, _bytes, _gbs, _percent
  ColumnKind kind = ColumnKind::integer;
  std::string unit;  ///< "ns", "bytes", "GB/s", "%", or "" for counts, ids and names
  std::string description;
};

/// Longest label in bytes; longer ones do not fit the fixed-width column of the store.
inline constexpr std::size_t label_width = 48;

struct TableSchema {
  std::string name;
  std::string description;
  std::vector<ColumnSchema> columns;
};

/// Values of one column; the alternative follows from ColumnKind: integer, real, label and text.
using ColumnData = std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>>;

/// A table, or one chunk of a long table: columns of equal length in the order of the schema.
/// The store and the CSV files write the same tables.
struct Table {
  TableSchema schema;
  std::vector<ColumnData> columns;

  std::size_t row_count() const;
};

/// An empty table with the right alternative in every column.
Table make_table(TableSchema schema);

}  // namespace nsys_explain
