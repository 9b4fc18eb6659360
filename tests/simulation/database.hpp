#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace nsys_explain::synth {

/// A new SQLite file, written in one transaction without a journal. Throws std::runtime_error.
class Database {
 public:
  explicit Database(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const std::string& sql);
  sqlite3_stmt* prepare(const std::string& sql);

  /// Commits and closes; afterwards only the file itself is left.
  void finish();

 private:
  [[noreturn]] void fail(const char* action) const;

  std::string path_;
  sqlite3* handle_ = nullptr;
};

struct Column {
  std::string name;
  std::string type;  ///< INTEGER, TEXT or REAL
  bool not_null = false;
  bool primary_key = false;
};

/// A table that comes into being with its first row, as in nsys' lazy exports. Values stay bound from row to row: set
/// what changes, then insert(). Columns that the version lacks have index 0 and are ignored.
class Table {
 public:
  Table(Database& database, std::string name, std::vector<Column> columns);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// 1-based index of a column, 0 where this table has none of that name.
  int column(std::string_view name) const;

  void set(int column, std::int64_t value);
  void set_text(int column, std::string_view value);
  void set_blob(int column, std::string_view value);
  void set_null(int column);
  void insert();

  /// Creates the table even if it stays empty; no effect where it exists.
  void create();

  std::int64_t rows() const { return rows_; }

 private:
  Database& database_;
  std::string name_;
  std::vector<Column> columns_;
  sqlite3_stmt* statement_ = nullptr;
  std::int64_t rows_ = 0;
};

}  // namespace nsys_explain::synth
