#pragma once

#include <cstddef>

#include "nsys_explain/model/table.hpp"

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

}  // namespace nsys_explain::store
