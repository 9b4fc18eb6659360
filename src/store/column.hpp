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

/// Most bytes of a column that is stored in its header instead: most tables are short, and an index and a compressed
/// chunk would take more room and four times as long.
inline constexpr std::size_t compact_bytes = std::size_t{8} * 1024;

/// Replaces an attribute of `object`; `name` of the object is for messages.
void write_attribute(hid_t object, std::string_view object_name, std::string_view name, std::string_view value);
void write_attribute(hid_t object, std::string_view object_name, std::string_view name, std::int64_t value);
void write_attribute(hid_t object, std::string_view object_name, std::string_view name,
                     std::span<const std::string> values);

/// Most bytes of the longest text of a column whose texts are stored with one width: compressed, texts that repeat take
/// a twentieth of the room of variable-length ones (which HDF5 does not compress), and half of the time.
inline constexpr std::size_t most_text_width = 256;

/// One column of a table as a one-dimensional dataset: compact where it is short, else chunked and compressed.
class Column {
 public:
  /// Creates the dataset, with unit and description as attributes, in the group of the table. Exactly `rows` values
  /// will be appended, none of which is longer than `longest_text` bytes.
  Column(hid_t group, const std::string& table, const ColumnSchema& schema, std::size_t rows, std::size_t longest_text);

  /// Throws std::invalid_argument where the values are of another type than the schema says or a text is too long.
  void check(const ColumnData& values) const;

  /// Appends values that passed check().
  void append(const ColumnData& values);

  /// Writes out what is buffered and closes. Throws std::logic_error where other than the rows that were announced
  /// came.
  void close();

 private:
  void write_rows(hid_t memory_type, const void* rows, std::size_t count);

  std::string name_;  ///< table/column, for messages
  ColumnKind kind_;
  std::size_t text_width_;  ///< bytes; 0: not text, or of any length
  hsize_t announced_rows_;
  Object dataset_;
  hsize_t rows_ = 0;
};

}  // namespace nsys_explain::store
