#include "serve/upload_room.hpp"

#include <limits>

#include <sys/statvfs.h>

namespace nsys_explain::serve {

UploadRoom::UploadRoom(const std::string& directory)
    : UploadRoom([directory] {
        struct statvfs disk {};
        if (::statvfs(directory.c_str(), &disk) != 0) return std::numeric_limits<std::int64_t>::max();
        return static_cast<std::int64_t>(disk.f_bavail) * static_cast<std::int64_t>(disk.f_frsize);
      }) {}

bool UploadRoom::claim(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (free_bytes_() - claimed_bytes_ - room_to_leave < bytes) return false;
  claimed_bytes_ += bytes;
  return true;
}

void UploadRoom::release(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  claimed_bytes_ -= bytes;
}

}  // namespace nsys_explain::serve
