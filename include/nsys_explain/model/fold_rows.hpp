#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain {

/// A column of what a table adds up to.
struct FoldedColumn {
  enum class By { key, sum, largest };
  std::string_view name;  ///< there
  std::string_view from;  ///< the column of the table; its kind and unit stay
  By by = By::sum;        ///< `sum` and `largest` want integers
};

/// How the rows of a table are added up: a row for all that agree in the keys.
struct Folding {
  std::vector<FoldedColumn> columns = {};
  std::string_view order = {};       ///< a name of `columns`: most of it first, then by keys; empty: by keys
  std::size_t most = 50;             ///< rows that are kept
  std::string_view only_where = {};  ///< a column: rows that have 0 there do not count
};

/// The rows of these trace ranks added up; empty `trace_ranks`: all rows. Throws std::out_of_range where the table
/// lacks a column.
Table fold_rows(const Table& table, const Folding& folding, const std::set<std::int64_t>& trace_ranks = {});

}  // namespace nsys_explain
