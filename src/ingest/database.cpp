#include "ingest/database.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>

#include "ingest/pages/page_file.hpp"
#include "nsys_explain/ingest/ingest.hpp"

namespace nsys_explain::ingest {
namespace {

void execute(sqlite3* handle, const char* sql) {
  const int code = sqlite3_exec(handle, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) throw_sqlite_error(handle, code, "");
}

/// Calls `use(text of column 0)` for each row.
template <class Use>
void for_each_text(sqlite3* handle, const std::string& sql, std::string_view table, const Use& use) {
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(handle, sql.c_str(), -1, &statement, nullptr);
  while (code == SQLITE_OK || code == SQLITE_ROW) {
    code = sqlite3_step(statement);
    if (code != SQLITE_ROW) break;
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    if (text != nullptr) use(std::string(text));
  }
  sqlite3_finalize(statement);
  if (code != SQLITE_DONE) throw_sqlite_error(handle, code, table);
}

bool is_lock_failure(int extended_code) {
  switch (extended_code) {
    case SQLITE_IOERR_LOCK:
    case SQLITE_IOERR_RDLOCK:
    case SQLITE_IOERR_UNLOCK:
    case SQLITE_IOERR_CHECKRESERVEDLOCK:
      return true;
    default:
      return false;
  }
}

sqlite3* open_connection(const std::string& path, OpenMode mode, const char* vfs) {
  sqlite3* handle = nullptr;
  const int access = mode == OpenMode::read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  const int code = sqlite3_open_v2(path.c_str(), &handle, access | SQLITE_OPEN_NOMUTEX, vfs);
  if (code != SQLITE_OK) {
    try {
      throw_sqlite_error(handle, code, "");
    } catch (...) {
      sqlite3_close(handle);
      throw;
    }
  }
  sqlite3_extended_result_codes(handle, 1);
  // The file comes from somebody else: nothing its schema says may run code, and damage should be found early.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return handle;
}

}  // namespace

std::string quoted_identifier(std::string_view identifier) {
  std::string result = "\"";
  for (const char c : identifier) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

void throw_sqlite_error(sqlite3* handle, int code, std::string_view table) {
  const std::string where = table.empty() ? std::string("the export") : fmt::format("table {} of the export", table);
  const int primary = code & 0xff;
  if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED) {
    throw TraceError(
        "the export is being written by another program: what is read now would be incomplete; wait until the export "
        "has finished");
  }
  if (primary == SQLITE_CANTOPEN || primary == SQLITE_PERM || primary == SQLITE_AUTH) {
    throw TraceError(fmt::format(
        "the file cannot be opened ({}): nothing can be analysed; check its permissions and that it is a regular file",
        sqlite3_errstr(primary)));
  }
  if (primary == SQLITE_NOTADB) {
    throw TraceError(
        "the file is not a SQLite database: only SQLite exports can be read; export the report with: nsys export "
        "--type sqlite --include-blobs=true REPORT.nsys-rep");
  }
  if (primary == SQLITE_NOMEM) {
    throw TraceError(
        fmt::format("out of memory while reading {}: the trace was not read; use more tool ranks or nodes", where));
  }
  const char* reason = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  throw TraceError(
      fmt::format("{} is damaged or cannot be read ({}): its rows cannot be trusted; copy the file again or repeat the "
                  "export with nsys export",
                  where, reason));
}

Database::Database(const std::string& path, OpenMode mode, const ScanOptions& options) : options_(options) {
  handle_ = open_connection(path, mode, nullptr);
  try {
    try {
      execute(handle_, "BEGIN; SELECT count(*) FROM sqlite_master");
    } catch (const TraceError&) {
      // Some parallel file systems are mounted without file locks. Nothing writes an export that is complete, so
      // reading without locks is safe; the failure must not end the analysis.
      if (!is_lock_failure(sqlite3_extended_errcode(handle_))) throw;
      sqlite3_close(handle_);
      handle_ = nullptr;
      handle_ = open_connection(path, mode, "unix-none");
      execute(handle_, "BEGIN; SELECT count(*) FROM sqlite_master");
    }
    read_schema();
    if (options_.reader != Reader::sqlite) open_pages(path);
  } catch (...) {
    sqlite3_close(handle_);
    throw;
  }
}

Database::~Database() {
  sqlite3_close(handle_);
}

bool Database::has_column(std::string_view table, std::string_view column) const {
  const auto found = tables_.find(table);
  return found != tables_.end() && std::find(found->second.begin(), found->second.end(), column) != found->second.end();
}

void Database::open_pages(const std::string& path) {
  try {
    page_file_ = std::make_unique<pages::PageFile>(path);
  } catch (const pages::PageSurprise& surprise) {
    if (options_.reader == Reader::pages) {
      throw TraceError(fmt::format(
          "the pages of the file cannot be read as they are ({}): nothing was read; leave out --reader pages",
          surprise.what()));
    }
    log_->warnings.push_back(
        {Severity::info, WarningSource::trace, 1,
         fmt::format("the file was read through SQLite, not page by page, because {}: nothing is missing, it takes "
                     "longer; export the report again for speed",
                     surprise.what())});
  }
}

void Database::read_schema() {
  // A virtual table has no pages of its own (rootpage 0) and would call into a module.
  for_each_text(handle_, "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0", "",
                [&](std::string name) { tables_.try_emplace(std::move(name)); });
  for (auto& [table, columns] : tables_) {
    std::vector<std::string>& names = columns;
    for_each_text(handle_, "SELECT name FROM pragma_table_info(" + quoted_identifier(table) + ")", table,
                  [&](std::string name) { names.push_back(std::move(name)); });
  }
}

}  // namespace nsys_explain::ingest
