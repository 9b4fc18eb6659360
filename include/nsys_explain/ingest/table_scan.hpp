#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nsys_explain/ingest/database.hpp"

namespace nsys_explain::ingest {

enum class ColumnType : std::uint8_t { integer, text };

/// `required`: without it the table cannot be used and the trace is refused. `optional`: absent in some versions of
/// nsys; every row then holds NULL.
enum class Presence : std::uint8_t { required, optional };

/// Values of one column of the current batch.
struct ColumnBatch {
  std::string name;
  ColumnType type = ColumnType::integer;
  bool exists = false;
  std::vector<std::int64_t> integers;   ///< no_time for NULL and for what is not a number
  std::vector<std::string_view> texts;  ///< text or bytes as stored; data() is nullptr for NULL
};

/// Handle on an integer column of a scan.
class IntegerColumn {
 public:
  explicit IntegerColumn(const ColumnBatch& column) : column_(&column) {}
  std::int64_t operator[](std::size_t row) const { return column_->integers[row]; }

 private:
  const ColumnBatch* column_;
};

/// Handle on a text or bytes column of a scan. The views die with the batch.
class TextColumn {
 public:
  explicit TextColumn(const ColumnBatch& column) : column_(&column) {}
  std::string_view operator[](std::size_t row) const { return column_->texts[row]; }

 private:
  const ColumnBatch* column_;
};

inline bool is_null(std::string_view text) {
  return text.data() == nullptr;
}

/// Reads some columns of one table in storage order, in batches of columns. Usage:
///
///     TableScan scan(database, "CUPTI_ACTIVITY_KIND_KERNEL");
///     const auto start = scan.integer("start", Presence::required);
///     scan.for_each_batch([&](std::size_t rows) { for (std::size_t row = 0; row < rows; ++row) use(start[row]); });
///
/// This is the seam for other readers of the file format: whatever fills the columns, users of a scan see the same.
/// A table that does not exist has no rows: nsys creates tables only for events that happened.
class TableScan {
 public:
  static constexpr std::size_t batch_rows = 16384;

  TableScan(const Database& database, std::string_view table);

  IntegerColumn integer(std::string_view name, Presence presence = Presence::optional);
  TextColumn text(std::string_view name, Presence presence = Presence::optional);

  /// Calls `sink(rows)` for each batch; column handles show its rows during the call. Throws TraceError where the file
  /// is damaged, with the name of the table, and whatever `sink` throws.
  void for_each_batch(const std::function<void(std::size_t rows)>& sink);

 private:
  const ColumnBatch& add(std::string_view name, ColumnType type, Presence presence);

  const Database& database_;
  std::string table_;
  bool table_exists_;
  std::vector<std::unique_ptr<ColumnBatch>> columns_;  ///< stable addresses: handles point here
};

}  // namespace nsys_explain::ingest
