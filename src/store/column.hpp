#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "hdf5_object.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain::store {

/// Bytes of an uncompressed chunk. Half of HDF5's default chunk cache (1 MiB per dataset): a chunk that is filled by
/// several appends stays in memory and is compressed once.
inline constexpr std::size_t chunk_bytes = std::size_t{512} * 1024;

/// Chunk length for a column: a power of two of at most chunk_bytes, and no longer than a table of `expected_rows`
/// needs (0: unknown, the table may grow).
std::size_t chunk_rows(ColumnKind kind, std::size_t expected_rows);

/// Replaces an attribute of `object`; `name` of the object is for messages.
void write_attribute(hid_t object, std::string_view object_name, std::string_view name, std::string_view value);
void write_attribute(hid_t object, std::string_view object_name, std::string_view name, std::int64_t value);
void write_attribute(hid_t object, std::string_view object_name, std::string_view name,
                     std::span<const std::string> values);

/// One column of a table as a chunked, compressed, one-dimensional dataset that grows.
class Column {
 public:
  /// Creates the empty dataset, with unit and description as attributes, in the group of the table.
  Column(hid_t group, const std::string& table, const ColumnSchema& schema, std::size_t expected_rows);

  /// Throws std::invalid_argument where the values are of another type than the schema says or a label is too long.
  void check(const ColumnData& values) const;

  /// Appends values that passed check().
  void append(const ColumnData& values);

  /// Writes out what is buffered and closes.
  void close();

 private:
  void write_rows(hid_t memory_type, const void* rows, std::size_t count);

  std::string name_;  ///< table/column, for messages
  ColumnKind kind_;
  Object dataset_;
  hsize_t rows_ = 0;
};

}  // namespace nsys_explain::store
