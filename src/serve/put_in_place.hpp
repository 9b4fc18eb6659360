#pragma once

#include <filesystem>

namespace nsys_explain::serve {

/// As renameat2(2).
using RenameAt = int (*)(int, const char*, int, const char*, unsigned);

/// Moves a directory, in one step, to a name under which nothing lies: never over what has come meanwhile. Where the
/// file system has no such step (NFS), over an empty directory that comes within microseconds, and over nothing else.
/// Returns 0, or what `errno` said.
int put_in_place(const std::filesystem::path& directory, const std::filesystem::path& target, RenameAt rename);
int put_in_place(const std::filesystem::path& directory, const std::filesystem::path& target);

}  // namespace nsys_explain::serve
