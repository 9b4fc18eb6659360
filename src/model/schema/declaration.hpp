#pragma once

#include "nsys_explain/model/table.hpp"

/// Tables that are read where they are not made: each is declared once, with its columns as members, so that a mistyped
/// column does not compile. The declarations of one topic stand in one header beside this one.
namespace nsys_explain::schema {

/// What a table is called and what it holds. Its columns are members of a derived class and enter themselves here, in
/// their order.
class Declaration {
 public:
  constexpr Declaration(std::string_view name, std::string_view description) : name_(name), description_(description) {}
  Declaration(const Declaration&) = delete;
  Declaration& operator=(const Declaration&) = delete;

  constexpr std::string_view table_name() const { return name_; }
  TableSchema table_schema() const {
    TableSchema schema{std::string(name_), std::string(description_), {}};
    for (std::size_t c = 0; c < count_; ++c) {
      const Entry& entry = entries_[c];
      schema.columns.push_back(
          {std::string(entry.name), entry.kind, std::string(entry.unit), std::string(entry.description)});
    }
    return schema;
  }

 private:
  template <ColumnKind kind>
  friend struct Column;
  struct Entry {
    std::string_view name, unit, description;
    ColumnKind kind = ColumnKind::integer;
  };
  std::string_view name_, description_;
  std::array<Entry, 32> entries_{};  // one column too many does not compile
  std::size_t count_ = 0;
};

template <ColumnKind kind>
struct Column {
  using Values = std::conditional_t<kind == ColumnKind::text, TextColumn,
                                    std::vector<std::conditional_t<kind == ColumnKind::real, double, std::int64_t>>>;

  /// A column that many tables have, once they are joined.
  constexpr explicit Column(std::string_view column_name) : name(column_name) {}
  constexpr Column(Declaration& table, std::string_view column_name, std::string_view unit = "",
                   std::string_view description = "")
      : name(column_name) {
    table.entries_[table.count_++] = {column_name, unit, description, kind};
  }

  constexpr operator std::string_view() const { return name; }

  std::string_view name;
};

using Integer = Column<ColumnKind::integer>;
using Time = Column<ColumnKind::time>;
using Real = Column<ColumnKind::real>;
using Text = Column<ColumnKind::text>;

/// In front of the rows of every trace rank, once they are joined.
inline constexpr Integer trace_rank{"trace_rank"};

/// The values of a column of a table that has it; throws std::out_of_range or std::bad_variant_access where it has not.
template <ColumnKind kind>
const typename Column<kind>::Values& column(const Table& table, const Column<kind>& wanted) {
  return std::get<typename Column<kind>::Values>(table.columns[table.schema.index_of(wanted.name)]);
}
template <ColumnKind kind>
typename Column<kind>::Values& column(Table& table, const Column<kind>& wanted) {
  return std::get<typename Column<kind>::Values>(table.columns[table.schema.index_of(wanted.name)]);
}
/// Likewise, of several.
template <ColumnKind kind, std::size_t count>
std::array<const typename Column<kind>::Values*, count> columns(const Table& table,
                                                                const std::array<Column<kind>, count>& wanted) {
  std::array<const typename Column<kind>::Values*, count> found{};
  for (std::size_t c = 0; c < count; ++c) found[c] = &column(table, wanted[c]);
  return found;
}

inline Table make_table(const Declaration& declaration) {
  return nsys_explain::make_table(declaration.table_schema());
}

/// The table, joined or not; nullptr where there is none.
inline const Table* find_table(const std::vector<Table>& tables, const Declaration& declaration) {
  return nsys_explain::find_table(tables, declaration.table_name());
}

/// The columns that analysis::write_statistics fills, of values in "ns" or in "bytes".
struct Statistics {
  constexpr explicit Statistics(Declaration& table, std::string_view unit = "ns")
      : count{table, "count", "", "number of them"},
        total{table, of(unit, "total_ns", "total_bytes"), unit, "sum"},
        mean{table, of(unit, "mean_ns", "mean_bytes"), unit, "average"},
        median{table, of(unit, "median_ns", "median_bytes"), unit, "interpolated; the 50th percentile"},
        p90{table, of(unit, "p90_ns", "p90_bytes"), unit, "90th percentile, interpolated"},
        p95{table, of(unit, "p95_ns", "p95_bytes"), unit, "95th percentile, interpolated"},
        p99{table, of(unit, "p99_ns", "p99_bytes"), unit, "99th percentile, interpolated"},
        min{table, of(unit, "min_ns", "min_bytes"), unit, "smallest"},
        max{table, of(unit, "max_ns", "max_bytes"), unit, "largest"},
        deviation{table, of(unit, "stddev_ns", "stddev_bytes"), unit,
                  "sample standard deviation (n - 1); 0 for a single one"} {}

  Integer count, total;
  Real mean, median, p90, p95, p99;
  Integer min, max;
  Real deviation;

 private:
  static constexpr std::string_view of(std::string_view unit, std::string_view of_times, std::string_view of_sizes) {
    return unit == "ns" ? of_times : of_sizes;
  }
};

}  // namespace nsys_explain::schema
