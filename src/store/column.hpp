#pragma once

#include "store/encoded_rows.hpp"
#include "store/hdf5_object.hpp"

namespace nsys_explain::store {

/// Bytes of a chunk before it is compressed: HDF5's readers hold a megabyte of chunks of each dataset.
inline constexpr std::size_t chunk_bytes = std::size_t{512} * 1024;

/// Most bytes of the longest text of a column whose texts are stored with one width: compressed, texts that repeat take
/// a twentieth of the room of variable-length ones (which HDF5 does not compress), and half of the time.
inline constexpr std::size_t most_text_width = 256;

/// How the values of a column lie in the file: follows from schema and extent alone, whoever writes it.
struct ColumnLayout {
  std::size_t width = 0;       ///< bytes of each value; 0: texts of any length
  std::size_t chunk_rows = 0;  ///< 0: so short that the values lie in the dataset's header
  bool is_text = false;

  /// Shuffled, the same bytes of neighbouring numbers lie together; of texts they do not repeat, whole texts do.
  bool is_shuffled() const { return !is_text; }
};

/// Of a column of a table with so many rows, of whose texts none is longer than `longest_text` bytes.
ColumnLayout layout_of(ColumnKind kind, std::size_t rows, std::size_t longest_text);

/// Throws std::invalid_argument where the columns do not fit the schema or differ in length, or where a text is longer
/// than announced.
void check_rows(const Table& rows, const TableSchema& schema, const std::vector<std::size_t>& longest_texts);

/// Replaces an attribute of `object`; `name` of the object is for messages.
void write_attribute(hid_t object, std::string_view object_name, std::string_view name, std::string_view value);
void write_attribute(hid_t object, std::string_view object_name, std::string_view name, std::int64_t value);
void write_attribute(hid_t object, std::string_view object_name, std::string_view name,
                     std::span<const std::string> values);

/// One column of a table as a one-dimensional dataset: compact where it is short, else chunked and compressed.
class Column {
 public:
  /// Creates the dataset of `rows` values, with unit and description as attributes, in the group of the table.
  Column(hid_t group, const std::string& table, const ColumnSchema& schema, const ColumnLayout& layout,
         std::size_t rows);

  /// Writes rows [first, first + count): a slab.
  void write(const EncodedColumn& values, std::size_t first, std::size_t count);

  /// Writes out what is buffered and closes.
  void close();

 private:
  void write_chunks(const EncodedColumn& values, std::size_t first);
  void write_rows(hid_t memory_type, const void* rows, std::size_t first, std::size_t count);

  std::string name_;  ///< table/column, for messages
  ColumnKind kind_;
  ColumnLayout layout_;
  Object dataset_;
};

}  // namespace nsys_explain::store
