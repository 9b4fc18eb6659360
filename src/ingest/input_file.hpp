#pragma once

#include <memory>
#include <string>

#include "ingest/staging.hpp"

namespace nsys_explain::ingest {

/// Whether there are files beside `path` that SQLite would read, or create and delete: they belong to the database.
bool has_sidecar(const std::string& path);

/// The user's file, looked at before SQLite touches it, and the path under which SQLite may open it.
///
/// Opening a database in WAL mode creates -wal and -shm files beside it, even read-only, and a hot rollback journal
/// must be played back before the file means anything. Neither may happen to the user's file, and `immutable=1` would
/// silently give wrong rows. Such a file is therefore copied with its sidecars and the copy is opened.
class InputFile {
 public:
  /// Throws TraceError for what is not a whole SQLite database, and where a copy is needed but does not fit.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path_to_open() const { return path_to_open_; }
  bool is_private_copy() const { return scratch_ != nullptr; }

 private:
  std::string path_to_open_;
  std::unique_ptr<ScratchDirectory> scratch_;
};

}  // namespace nsys_explain::ingest
