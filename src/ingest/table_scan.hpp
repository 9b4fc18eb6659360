#pragma once

#include <optional>

#include "ingest/database.hpp"
#include "nsys_explain/model/time.hpp"

namespace nsys_explain::ingest {

enum class ColumnType : std::uint8_t { integer, text };

/// `required`: without it the table cannot be used and the trace is refused. `optional`: absent in some versions of
/// nsys; every row then holds NULL.
enum class Presence : std::uint8_t { required, optional };

/// Values of one column of the current batch: one of the two, by the type of the column.
struct ColumnValues {
  std::vector<std::int64_t> integers;   ///< no_time for NULL and for what is not a number
  std::vector<std::string_view> texts;  ///< text or bytes as stored; data() is nullptr for NULL
};

/// One column that a scan wants.
struct ScanColumn {
  std::string name;
  ColumnType type = ColumnType::integer;
  bool exists = false;
  ColumnValues values;
};

/// Handle on an integer column of a scan.
class IntegerColumn {
 public:
  explicit IntegerColumn(const ScanColumn& column) : column_(&column) {}
  std::int64_t operator[](std::size_t row) const { return column_->values.integers[row]; }

 private:
  const ScanColumn* column_;
};

/// Handle on a text or bytes column of a scan. The views die with the batch.
class TextColumn {
 public:
  explicit TextColumn(const ScanColumn& column) : column_(&column) {}
  std::string_view operator[](std::size_t row) const { return column_->values.texts[row]; }

 private:
  const ScanColumn* column_;
};

inline bool is_null(std::string_view text) {
  return text.data() == nullptr;
}

using ScanColumns = std::vector<std::unique_ptr<ScanColumn>>;  ///< stable addresses: handles point here

/// How much of a table has been read before and with the current batch.
struct SharesRead {
  double before = 0, after = 0;
  std::size_t rows = 1;  ///< of the batch
};

/// Takes the next batch; the column handles show its rows during the call.
using BatchSink = std::function<void(std::size_t rows)>;

/// Reads some columns of one table by ascending rowid, in batches of columns. Usage:
///
///     TableScan scan(database, "CUPTI_ACTIVITY_KIND_KERNEL");
///     const auto start = scan.integer("start", Presence::required);
///     scan.for_each_batch([&](std::size_t rows) { for (std::size_t row = 0; row < rows; ++row) use(start[row]); });
///
/// Two readers stand behind it, and its users see no difference: the pages of the table themselves (src/ingest/pages),
/// and SQLite, which takes over from the row at which the first meets what it does not know. Damage that either notices
/// is an error.
/// A table that does not exist has no rows: nsys creates tables only for events that happened.
class TableScan {
 public:
  TableScan(const Database& database, std::string_view table);

  IntegerColumn integer(std::string_view name, Presence presence = Presence::optional);
  TextColumn text(std::string_view name, Presence presence = Presence::optional);

  /// The integer columns `start` and `end`, both asked for, tell when a row happened, as trace time + `shift_ns`: so
  /// the scan learns the table's zone map, and leaves out what is no part of what is to be read (ScanOptions::part).
  void happens_between_start_and_end(Nanoseconds shift_ns) { time_shift_ns_ = shift_ns; }

  /// Calls `sink(rows)` for each batch, on this thread. Throws TraceError where the file is damaged, with the name of
  /// the table, and whatever `sink` throws. Rows and reservations go to the database's scan log.
  void for_each_batch(const BatchSink& sink);

  /// Of the table, up to this row of the current batch, with it; 0 where that is not known.
  double share_read(std::size_t row) const {
    const double of_batch = static_cast<double>(row + 1) / static_cast<double>(shares_.rows);
    return shares_.before + of_batch * (shares_.after - shares_.before);
  }

 private:
  const ScanColumn& add(std::string_view name, ColumnType type, Presence presence);

  const Database& database_;
  std::string table_;
  bool table_exists_;
  ScanColumns columns_;
  std::optional<Nanoseconds> time_shift_ns_;
  SharesRead shares_;
};

/// NULL of a column whose absence means 0.
inline std::int64_t zero_if_null(std::int64_t value) {
  return value == no_time ? 0 : value;
}

/// A column's value as a narrower type; `fallback` for NULL.
template <class Integer>
Integer value_or(std::int64_t value, Integer fallback) {
  return value == no_time ? fallback : static_cast<Integer>(value);
}

/// Rows of a table by ascending rowid, as far as it has one.
struct RowSpan {
  std::size_t rows = 0;
  std::int64_t first_rowid = 0, last_rowid = 0;  ///< 0 where the table has none
  double share_read = 0;                         ///< of the table, with these rows; 0: not known
};

/// The part of a table that SQLite is to read.
struct SqliteScan {
  const std::string& table;
  const std::string& rowid_name;      ///< empty: it has none
  std::optional<std::int64_t> after;  ///< rows with greater rowids only; needs the name
};

/// Reads rows through SQLite into `columns` and calls `use` for each batch of them. Knows all that a file may hold, but
/// must not be let loose on damage (pages/page_file.hpp). Throws TraceError and whatever `use` throws.
void for_each_sqlite_batch(const Database& database, const SqliteScan& scan, ScanColumns& columns,
                           const std::function<void(const RowSpan&)>& use);

}  // namespace nsys_explain::ingest
