#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "nsys_explain/model/table.hpp"
#include "store/column_layout.hpp"
#include "store/encoded_rows.hpp"
#include "store/hdf5_object.hpp"

namespace nsys_explain::store {

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
