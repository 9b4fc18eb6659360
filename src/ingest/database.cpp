#include "ingest/database.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <sqlite3.h>

#include "ingest/pages/page_rows.hpp"

namespace nsys_explain::ingest {

/// SQLite's way to one database and to no other file. A journal may name a file, which SQLite looks for, opens and
/// deletes when it rolls that journal back. Here no name works but those of the database and, of a private copy, of its
/// journal and its log. Must outlive the connection.
class ConfinedVfs : private sqlite3_vfs {
 public:
  /// `base`: the VFS that reads and writes; nullptr: SQLite's default one. Throws TraceError.
  ConfinedVfs(OpenMode mode, const char* base);
  ~ConfinedVfs();
  ConfinedVfs(const ConfinedVfs&) = delete;
  ConfinedVfs& operator=(const ConfinedVfs&) = delete;

  const char* name() const { return zName; }
  /// Whether SQLite asked for any other file.
  bool has_refused() const { return has_refused_; }

 private:
  static int open(sqlite3_vfs* self, const char* file, sqlite3_file* opened, int flags, int* out_flags);
  static int remove(sqlite3_vfs* self, const char* file, int sync);
  static int access(sqlite3_vfs* self, const char* file, int flags, int* result);
  bool is_own(const char* file);
  bool may_change(const char* file) { return is_own(file) && mode_ == OpenMode::private_copy; }

  sqlite3_vfs* base_;
  OpenMode mode_;
  std::string name_, database_;
  bool has_refused_ = false;
};

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

/// SQLite's machine takes one operation for a column of a row, which has at least a byte in the file, and four for a
/// row, which has at least six. No table is read more than a few times; what it costs to open the smallest file is less
/// than the fewest.
constexpr std::int64_t operations_per_byte = 16, fewest_operations = 1'000'000, operations_between_checks = 1000;

std::int64_t operations_for(const std::string& path) {
  std::int64_t bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    std::error_code missing;
    const auto size = std::filesystem::file_size(path + suffix, missing);
    if (!missing) bytes += static_cast<std::int64_t>(size);
  }
  return fewest_operations + operations_per_byte * bytes;
}

int count_operations(void* left) {
  return (*static_cast<std::int64_t*>(left) -= operations_between_checks) < 0 ? 1 : 0;
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

TraceError foreign_name() {
  return TraceError(
      "the journal beside the export names another file, as a change of several databases at once does: SQLite would delete that file, so it was left alone and nothing was read; repeat the export with nsys export, and do not open this one with sqlite3");
}

sqlite3_vfs* find_vfs(const char* name) {
  sqlite3_vfs* found = sqlite3_vfs_find(name);
  if (found == nullptr) throw_sqlite_error(nullptr, SQLITE_NOTFOUND, "");
  return found;
}

}  // namespace

ConfinedVfs::ConfinedVfs(OpenMode mode, const char* base)
    : sqlite3_vfs(*find_vfs(base)),
      base_(sqlite3_vfs_find(base)),
      mode_(mode),
      name_(fmt::format("nsys-explain-{}", static_cast<const void*>(this))) {
  pNext = nullptr;
  zName = name_.c_str();
  xOpen = open;
  xDelete = remove;
  xAccess = access;
  if (const int code = sqlite3_vfs_register(this, 0); code != SQLITE_OK) throw_sqlite_error(nullptr, code, "");
}

ConfinedVfs::~ConfinedVfs() {
  sqlite3_vfs_unregister(this);
}

bool ConfinedVfs::is_own(const char* file) {
  const std::string_view name = file;
  const bool extends = name.starts_with(database_);
  const std::string_view suffix = extends ? name.substr(database_.size()) : name;
  const bool is_its_own = extends && (suffix.empty() || suffix == "-journal" || suffix == "-wal");
  has_refused_ = has_refused_ || !is_its_own;
  return is_its_own;
}

/// The first file is the database, under the name that the others extend. One without a name would be a temporary one.
int ConfinedVfs::open(sqlite3_vfs* self, const char* file, sqlite3_file* opened, int flags, int* out_flags) {
  auto& vfs = static_cast<ConfinedVfs&>(*self);
  opened->pMethods = nullptr;
  if (file == nullptr) return SQLITE_CANTOPEN;
  if (vfs.database_.empty()) vfs.database_ = file;
  if (!vfs.may_change(file) && file != vfs.database_) return SQLITE_CANTOPEN;
  return vfs.base_->xOpen(vfs.base_, file, opened, flags, out_flags);
}

int ConfinedVfs::remove(sqlite3_vfs* self, const char* file, int sync) {
  auto& vfs = static_cast<ConfinedVfs&>(*self);
  return vfs.may_change(file) ? vfs.base_->xDelete(vfs.base_, file, sync) : SQLITE_IOERR_DELETE;
}

int ConfinedVfs::access(sqlite3_vfs* self, const char* file, int flags, int* result) {
  auto& vfs = static_cast<ConfinedVfs&>(*self);
  *result = 0;
  return vfs.is_own(file) ? vfs.base_->xAccess(vfs.base_, file, flags, result) : SQLITE_IOERR_ACCESS;
}

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
        "the export is being written by another program: what is read now would be incomplete; wait until the export has finished");
  }
  if (primary == SQLITE_CANTOPEN || primary == SQLITE_PERM || primary == SQLITE_AUTH) {
    throw TraceError(fmt::format(
        "the file cannot be opened ({}): nothing can be analysed; check its permissions and that it is a regular file",
        sqlite3_errstr(primary)));
  }
  if (primary == SQLITE_NOTADB) {
    throw TraceError(
        "the file is not a SQLite database: only SQLite exports can be read; export the report with: nsys export --type sqlite --include-blobs=true REPORT.nsys-rep");
  }
  if (primary == SQLITE_INTERRUPT) {
    throw TraceError(fmt::format(
        "{} takes longer to read than its size allows: the file is damaged and its pages refer to each other; copy the file again or repeat the export with nsys export",
        where));
  }
  if (primary == SQLITE_NOMEM) {
    throw TraceError(
        fmt::format("out of memory while reading {}: the trace was not read; use more tool ranks or nodes", where));
  }
  const char* reason = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  throw TraceError(fmt::format(
      "{} is damaged or cannot be read ({}): its rows cannot be trusted; copy the file again or repeat the export with nsys export",
      where, reason));
}

Database::Database(const std::string& path, OpenMode mode, const ScanOptions& options) : options_(options) {
  try {
    try {
      begin(path, mode, nullptr);
    } catch (const TraceError&) {
      if (vfs_->has_refused()) throw foreign_name();
      // Some parallel file systems are mounted without file locks. Nothing writes an export that is complete, so
      // reading without locks is safe; the failure must not end the analysis.
      if (!is_lock_failure(sqlite3_extended_errcode(handle_))) throw;
      sqlite3_close(handle_);
      handle_ = nullptr;
      begin(path, mode, "unix-none");
    }
    open_pages(path);
    read_schema();
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

void Database::begin(const std::string& path, OpenMode mode, const char* base_vfs) {
  vfs_ = std::make_unique<ConfinedVfs>(mode, base_vfs);
  handle_ = open_connection(path, mode, vfs_->name());
  operations_left_ = operations_for(path);
  sqlite3_progress_handler(handle_, operations_between_checks, count_operations, &operations_left_);
  execute(handle_, "PRAGMA temp_store = MEMORY");  // the VFS makes no temporary files
  // What the log or journal of a copy holds goes into its pages, so that they can be read.
  if (mode == OpenMode::private_copy) execute(handle_, "PRAGMA journal_mode = DELETE");
  execute(handle_, "BEGIN; SELECT 1 FROM sqlite_master LIMIT 1");
}

/// The schema has its pages, too: a table that they lost would be taken for one that nsys had no events for.
void Database::open_pages(const std::string& path) {
  const pages::PageScan schema{1, {std::vector<bool>(5), 5}};
  try {
    page_file_ = std::make_unique<pages::PageFile>(path);
    pages::check_pages(*page_file_, schema, 1);
  } catch (const pages::PageSurprise& surprise) {
    throw TraceError(fmt::format(
        "the pages of the file cannot be read ({}): nothing was read; copy the file again or repeat the export with nsys export",
        surprise.what()));
  } catch (const pages::PageDamage& damage) {
    throw TraceError(fmt::format(
        "the export's list of tables is damaged ({}): tables may be missing, so nothing was read; copy the file again or repeat the export with nsys export",
        damage.what()));
  }
}

void Database::read_schema() {
  std::string doubled;
  for_each_text(handle_, "SELECT name FROM sqlite_master WHERE rootpage > 0 GROUP BY rootpage HAVING count(*) > 1", "",
                [&](std::string name) { doubled = std::move(name); });
  if (!doubled.empty()) {
    throw TraceError(fmt::format(
        "table {} and another are in the same place of the file: it is damaged, so nothing was read; copy it again or repeat the export with nsys export",
        doubled));
  }
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
