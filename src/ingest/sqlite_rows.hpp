#pragma once

#include "ingest/table_scan.hpp"

namespace nsys_explain::ingest {

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
