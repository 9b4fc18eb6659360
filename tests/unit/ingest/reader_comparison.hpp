#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ingest/table_scan.hpp"
#include "nsys_explain/ingest/ingest.hpp"
#include "nsys_explain/model/time.hpp"

/// Scans against libsqlite3: every row and column of every table of a file, by a plain loop over sqlite3_step.
namespace nsys_explain::ingest::testing {

struct Cell {
  bool is_null = true;
  std::int64_t integer = no_time;
  std::string text;
  bool operator==(const Cell&) const = default;
};
using Rows = std::vector<std::vector<Cell>>;

inline Cell cell_of(sqlite3_stmt* row, int column) {
  Cell cell;
  const int type = sqlite3_column_type(row, column);
  cell.is_null = type == SQLITE_NULL;
  if (type == SQLITE_INTEGER) cell.integer = sqlite3_column_int64(row, column);
  if (type == SQLITE_FLOAT && std::abs(sqlite3_column_double(row, column)) < 9.2e18) {
    cell.integer = static_cast<std::int64_t>(sqlite3_column_double(row, column));
  }
  const void* bytes = type == SQLITE_BLOB ? sqlite3_column_blob(row, column) : sqlite3_column_text(row, column);
  if (bytes != nullptr) {
    cell.text.assign(static_cast<const char*>(bytes), static_cast<std::size_t>(sqlite3_column_bytes(row, column)));
  }
  return cell;
}

/// Rows in rowid order by SQLite alone; empty where SQLite fails.
inline std::optional<Rows> rows_by_stepping(const std::string& path, const std::string& table) {
  sqlite3* handle = nullptr;
  sqlite3_stmt* statement = nullptr;
  std::optional<Rows> rows;
  const std::string sql = "SELECT * FROM " + ingest::quoted_identifier(table) + " NOT INDEXED";
  if (sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK &&
      sqlite3_prepare_v2(handle, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK) {
    rows.emplace();
    int code = SQLITE_ROW;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
      std::vector<Cell>& row = rows->emplace_back();
      for (int c = 0; c < sqlite3_column_count(statement); ++c) row.push_back(cell_of(statement, c));
    }
    if (code != SQLITE_DONE) rows.reset();
  }
  sqlite3_finalize(statement);
  sqlite3_close(handle);
  return rows;
}

/// One scan of all columns as integers or as texts. Throws TraceError.
inline Rows rows_by_scan(const Database& database, const std::string& table, ColumnType type) {
  TableScan scan(database, table);
  std::vector<IntegerColumn> integers;
  std::vector<TextColumn> texts;
  for (const std::string& column : database.tables().find(table)->second) {
    if (type == ColumnType::integer) integers.push_back(scan.integer(column));
    if (type == ColumnType::text) texts.push_back(scan.text(column));
  }
  Rows result;
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<Cell>& cells = result.emplace_back();
      for (const IntegerColumn& column : integers) cells.push_back({true, column[row], {}});
      for (const TextColumn& column : texts) cells.push_back({is_null(column[row]), no_time, std::string(column[row])});
    }
  });
  return result;
}

inline bool same_rows(const Rows& scanned, const Rows& stepped, ColumnType type) {
  if (scanned.size() != stepped.size()) return false;
  for (std::size_t row = 0; row < scanned.size(); ++row) {
    for (std::size_t c = 0; c < scanned[row].size(); ++c) {
      const Cell &a = scanned[row][c], &b = stepped[row][c];
      if (type == ColumnType::integer && a.integer != b.integer) return false;
      if (type == ColumnType::text && (a.is_null != b.is_null || a.text != b.text)) return false;
    }
  }
  return true;
}

/// For tables that SQLite cannot read whole: a scan does not touch the values that it does not want.
inline bool sqlite_reads_the_same(const std::string& path, const std::string& table, ColumnType type,
                                  const Rows& scanned) {
  try {
    const Database database(path, OpenMode::read_only, {Reader::sqlite, 1});
    return same_rows(scanned, rows_by_scan(database, table, type), type);
  } catch (const TraceError&) {
    return false;
  }
}

inline bool is_left_to_sqlite(const Warning& warning) {
  return warning.message.find("through SQLite") != std::string::npos;
}

struct Comparison {
  std::string difference;  ///< empty: none
  std::size_t tables = 0, rows = 0;
  std::size_t left_to_sqlite = 0;  ///< scans that the page reader gave up
  std::size_t failed = 0;          ///< scans that found damage
};

/// Compares scans of all tables with SQLite: the same rows, or an error. A file that
/// cannot be opened has no tables.
inline Comparison compare_with_sqlite(const std::string& path, const ScanOptions& options) {
  Comparison result;
  std::optional<Database> database;
  try {
    database.emplace(path, OpenMode::read_only, options);
  } catch (const TraceError&) {
    return result;
  }
  for (const auto& [table, columns] : database->tables()) {
    const std::optional<Rows> stepped = rows_by_stepping(path, table);
    for (const ColumnType type : {ColumnType::integer, ColumnType::text}) {
      const std::string what = path + ", table " + table + (type == ColumnType::text ? " as text" : " as integers");
      try {
        const Rows scanned = rows_by_scan(*database, table, type);
        if (!stepped && !sqlite_reads_the_same(path, table, type, scanned)) {
          result.difference = what + ": read, but SQLite cannot";
        }
        if (stepped && !same_rows(scanned, *stepped, type)) result.difference = what + ": other rows than SQLite's";
        result.rows += scanned.size();
      } catch (const TraceError&) {
        ++result.failed;
      }
    }
    ++result.tables;
  }
  const auto& warnings = database->log().warnings;
  result.left_to_sqlite = static_cast<std::size_t>(std::count_if(warnings.begin(), warnings.end(), is_left_to_sqlite));
  return result;
}

}  // namespace nsys_explain::ingest::testing
