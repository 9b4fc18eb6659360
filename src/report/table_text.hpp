#pragma once

#include <cstddef>
#include <string>

#include "nsys_explain/model/table.hpp"

/// Tables as a person or a script reads them in a terminal. Pure functions.
namespace nsys_explain::report {

struct TextStyle {
  bool colour = false;          ///< ANSI colours, for terminals
  std::size_t cell_width = 60;  ///< longer text loses its middle
};

/// Aligned columns with a heading line; durations and bytes with units, numbers to the right. Ends with a newline.
std::string table_text(const Table& table, const TextStyle& style);

/// An array of one object per row, keys in column order; missing times and non-finite numbers are null.
std::string table_json(const Table& table);

/// Units of nsys' --timeunit.
enum class TimeUnit { nsec, usec, msec, sec };

/// The table with its columns of nanoseconds in another unit, whose names end in it: wait_ns -> wait_us. What is
/// missing stays so. In nsec only the texts change: bare numbers.
Table in_time_unit(Table table, TimeUnit unit);

/// The rows of `table` whose integer column holds `value`; all others are left out.
Table rows_where(const Table& table, std::string_view column, std::int64_t value);

/// At most `count` rows, those with the largest value of an integer column first; ties stay in their order.
Table largest_rows(const Table& table, std::string_view column, std::size_t count);

/// The first `count` rows.
Table first_rows(const Table& table, std::size_t count);

}  // namespace nsys_explain::report
