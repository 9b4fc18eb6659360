#pragma once

#include <optional>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain::store {

/// Reads what StoreWriter wrote. Every member function throws std::runtime_error (problem, why it matters, what to do)
/// where the file is damaged.
class StoreReader {
 public:
  /// Throws std::runtime_error where the file cannot be opened or is no store of ours. `name` is for messages; empty:
  /// the path.
  explicit StoreReader(const std::string& path, const std::string& name = "");
  ~StoreReader();
  StoreReader(const StoreReader&) = delete;
  StoreReader& operator=(const StoreReader&) = delete;

  /// Names of all tables, in the order in which they were written.
  const std::vector<std::string>& table_names() const;
  bool has_table(std::string_view name) const;

  /// Name, description and columns; points in time come back as ColumnKind::integer. Throws std::out_of_range where
  /// there is no such table.
  TableSchema schema(std::string_view name) const;
  std::int64_t row_count(std::string_view name) const;

  /// Rows [first, first + count) of a table, fewer at its end.
  Table read(std::string_view name, std::int64_t first, std::int64_t count) const;
  Table read(std::string_view name) const;
  /// The same of some columns, which the table must have, in that order.
  Table read(std::string_view name, std::int64_t first, std::int64_t count,
             const std::vector<std::string>& columns) const;
  /// Some columns of these rows, which the table must have, in ascending order.
  Table read_rows(std::string_view name, std::span<const std::int64_t> rows,
                  const std::vector<std::string>& columns) const;

  /// An attribute of the group `path`, as text; empty optional where there is none.
  std::optional<std::string> attribute(std::string_view path, std::string_view name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nsys_explain::store
