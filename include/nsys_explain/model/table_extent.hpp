#pragma once

#include <cstddef>
#include <vector>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain {

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

}  // namespace nsys_explain
