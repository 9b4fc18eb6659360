#pragma once

#include <functional>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain::serve {

enum class Comparison { equal, different, less, at_most, greater, at_least, contains };

struct Condition {
  std::string column;
  Comparison comparison = Comparison::equal;
  std::string value;
};

struct Order {
  std::string column;
  bool descending = false;
};

/// Which rows and columns of a table are asked for.
struct TableQuery {
  std::vector<std::string> columns;   ///< empty: all
  std::vector<Condition> conditions;  ///< all must hold
  std::vector<Order> order;           ///< empty: as the table has them
  std::int64_t offset = 0, limit = 100;
};

inline constexpr std::int64_t most_rows = 50'000;  ///< of one answer

/// "wait_ns>=1000", "phase=decode", "name~gemm" (contains), also != < <= >. Throws Refusal.
Condition parse_condition(std::string_view text);

/// From `columns`, `where` (any number of them), `order`, `offset` and `limit`; others are refused by name.
TableQuery parse_table_query(const std::vector<std::pair<std::string, std::string>>& parameters);

struct ChosenRows {
  std::int64_t matching = 0;       ///< rows that the conditions let through
  std::vector<std::int64_t> rows;  ///< of these, in order, those that offset and limit leave
};

/// The whole column of that name.
using ColumnLookup = std::function<const ColumnData&(const std::string&)>;

/// From a table of so many rows. Rows that are equal by the order stay as the table has them; missing times and NaN
/// come last. Throws Refusal where a value is no number and its column holds numbers.
ChosenRows chosen_rows(const ColumnLookup& column, const TableQuery& query, std::int64_t rows);

/// Refuses columns that the table lacks.
void check_columns(const TableSchema& schema, const TableQuery& query);

}  // namespace nsys_explain::serve
