#include "serve/put_in_place.hpp"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>

namespace nsys_explain::serve {

int put_in_place(const std::filesystem::path& directory, const std::filesystem::path& target, RenameAt rename) {
  if (rename(AT_FDCWD, directory.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return errno;
  struct stat present {};
  if (::lstat(target.c_str(), &present) == 0) return EEXIST;
  // A directory replaces nothing but an empty one (rename(2)).
  return ::rename(directory.c_str(), target.c_str()) == 0 ? 0 : errno;
}

int put_in_place(const std::filesystem::path& directory, const std::filesystem::path& target) {
  return put_in_place(directory, target, ::renameat2);
}

}  // namespace nsys_explain::serve
