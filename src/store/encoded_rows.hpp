#pragma once

#include "nsys_explain/model/table.hpp"

/// Rows as they lie in a store, shuffled and compressed: what takes the time of writing, done without the file, so that
/// every tool rank and every thread can.
namespace nsys_explain::store {

/// Rows of a table that are encoded together: [k * slab_rows, (k + 1) * slab_rows), fewer at the end of the table. No
/// chunk of a dataset crosses their borders.
inline constexpr std::size_t slab_rows = std::size_t{1} << 16;

/// One column of a slab.
struct EncodedColumn {
  std::string bytes;  ///< chunk after chunk; of a column without chunks its values; none of texts of any length
  std::vector<std::uint64_t> chunk_bytes;
  std::vector<std::string> texts;  ///< those of any length, which HDF5 itself has to place

  template <class Archive>
  void serialize(Archive& archive) {
    archive(bytes, chunk_bytes, texts);
  }
};

struct EncodedRows {
  std::string table;
  std::uint64_t rows = 0;
  std::vector<EncodedColumn> columns;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(table, rows, columns);
  }
};

/// Encodes rows [first, first + count) of `rows`, which are to be a slab of the table of this extent. Throws
/// std::invalid_argument where columns differ in length, do not fit the schema, or hold a longer text than announced.
EncodedRows encode_rows(const Table& rows, const TableExtent& extent, std::size_t first, std::size_t count);

/// Whether HDF5 and its readers can hold the text as it is.
bool is_storable(std::string_view text);

/// The text as HDF5 and its readers can hold it: bytes that are not UTF-8, and NUL (which would end the string), become
/// '?'. The length in bytes does not change.
std::string storable_text(std::string_view text);

}  // namespace nsys_explain::store
