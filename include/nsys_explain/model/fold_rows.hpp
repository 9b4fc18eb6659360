#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string_view>
#include <vector>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain {

/// A column of what a table adds up to.
struct FoldedColumn {
  enum class By {
    key,
    sum,
    largest,
    smallest,
    median,       ///< the lower one
    mean,         ///< weighted by `of`; values that are not finite do not count
    rows,         ///< how many; `from` is any column
    share,        ///< sum of the row's / that of all rows, those that `only_where` leaves out included; from 0 to 1
    at_largest,   ///< the value in the row with the largest `of`, the first of them
    at_smallest,  ///< likewise
  };
  std::string_view name;  ///< there
  std::string_view from;  ///< the column of the table; its kind and unit stay
  By by = By::sum;        ///< all but `key`, `at_largest` and `at_smallest` want numbers
  std::string_view of = {};
};

constexpr std::size_t every_row = std::numeric_limits<std::size_t>::max();

/// How the rows of a table are added up: a row for all that agree in the keys.
struct Folding {
  std::vector<FoldedColumn> columns = {};
  /// A name of `columns`: most of it first, then by keys. Empty: by keys, or by first rows.
  std::string_view order = {};
  bool by_first_rows = false;
  std::size_t most = 50;  ///< rows that are kept
  /// Rows that do not count: those that have 0 in this column; of texts, another than `is` or, where that is empty,
  /// `is_not`.
  std::string_view only_where = {}, is = {}, is_not = {};
};

/// The rows of these trace ranks added up; empty `trace_ranks`: all rows. Throws std::out_of_range where the table
/// lacks a column.
Table fold_rows(const Table& table, const Folding& folding, const std::set<std::int64_t>& trace_ranks = {});

/// Of `table`, with the columns of `other` that are no keys of it: those of its row with equal keys, else 0 or "".
/// The keys are the columns that both have.
Table joined_by_keys(Table table, const Table& other);

}  // namespace nsys_explain
