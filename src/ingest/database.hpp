#pragma once

#include <memory>

#include "nsys_explain/ingest/ingest.hpp"

struct sqlite3;

namespace nsys_explain::ingest {

namespace pages {
class PageFile;
}
class ConfinedVfs;

/// `read_only` never writes; `private_copy` may finish a write-ahead log or roll a journal back.
enum class OpenMode { read_only, private_copy };

/// An open export: the connection and what its schema really is. One read transaction spans the object's life, so all
/// scans see one state of the file even if something replaces rows meanwhile. SQLite has only so many operations for
/// all that it is asked, by the file's size: in damaged files it may go round in circles.
class Database {
 public:
  /// Throws TraceError.
  Database(const std::string& path, OpenMode mode, const ScanOptions& options = {});
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Real tables only: views that a tool added are not events.
  bool has_table(std::string_view table) const { return tables_.find(table) != tables_.end(); }
  bool has_column(std::string_view table, std::string_view column) const;
  /// Columns by table name; both as spelled in the file.
  const std::map<std::string, std::vector<std::string>, std::less<>>& tables() const { return tables_; }

  sqlite3* handle() const { return handle_; }

  const ScanOptions& options() const { return options_; }
  const pages::PageFile& page_file() const { return *page_file_; }
  /// Scans write to it, also through a database that they may not change otherwise.
  ScanLog& log() const { return *log_; }

 private:
  void begin(const std::string& path, OpenMode mode, const char* base_vfs);
  void open_pages(const std::string& path);
  void read_schema();

  // Destroyed after the connection is closed: see PageFile; so is vfs_.
  std::unique_ptr<pages::PageFile> page_file_;
  std::unique_ptr<ScanLog> log_ = std::make_unique<ScanLog>();
  ScanOptions options_;
  std::int64_t operations_left_ = 0;
  std::unique_ptr<ConfinedVfs> vfs_;
  sqlite3* handle_ = nullptr;
  std::map<std::string, std::vector<std::string>, std::less<>> tables_;
};

/// A SQL identifier in double quotes.
std::string quoted_identifier(std::string_view identifier);

/// Throws TraceError for a failed SQLite call: what SQLite says of it in one line, with the table being read ("" if
/// none) and what to do.
[[noreturn]] void throw_sqlite_error(sqlite3* handle, int code, std::string_view table);

}  // namespace nsys_explain::ingest
