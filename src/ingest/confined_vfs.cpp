#include "ingest/confined_vfs.hpp"

#include <fmt/format.h>

namespace nsys_explain::ingest {
namespace {

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

}  // namespace nsys_explain::ingest
