#pragma once

#include <sqlite3.h>

#include "ingest/database.hpp"

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

}  // namespace nsys_explain::ingest
