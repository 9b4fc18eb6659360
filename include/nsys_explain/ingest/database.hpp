#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;

namespace nsys_explain::ingest {

/// `read_only` never writes; `private_copy` may finish a write-ahead log or roll a journal back.
enum class OpenMode { read_only, private_copy };

/// An open export: the connection and what its schema really is. One read transaction spans the object's life, so all
/// scans see one state of the file even if something replaces rows meanwhile.
class Database {
 public:
  /// Throws TraceError.
  Database(const std::string& path, OpenMode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Real tables only: views that a tool added are not events.
  bool has_table(std::string_view table) const { return tables_.find(table) != tables_.end(); }
  bool has_column(std::string_view table, std::string_view column) const;
  /// Columns by table name; both as spelled in the file.
  const std::map<std::string, std::vector<std::string>, std::less<>>& tables() const { return tables_; }

  sqlite3* handle() const { return handle_; }

 private:
  void read_schema();

  sqlite3* handle_ = nullptr;
  std::map<std::string, std::vector<std::string>, std::less<>> tables_;
};

/// A SQL identifier in double quotes.
std::string quoted(std::string_view identifier);

/// Throws TraceError for a failed SQLite call: what SQLite says of it in one line, with the table being read ("" if
/// none) and what to do.
[[noreturn]] void throw_sqlite_error(sqlite3* handle, int code, std::string_view table);

}  // namespace nsys_explain::ingest
