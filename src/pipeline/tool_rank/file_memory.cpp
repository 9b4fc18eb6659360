#include "pipeline/tool_rank/file_memory.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace nsys_explain::pipeline {
namespace {

/// What is smaller is not worth a file.
constexpr std::size_t least_bytes = 1 << 20;

std::int64_t free_bytes(const std::string& directory) {
  std::error_code failure;
  const std::filesystem::space_info space = std::filesystem::space(directory, failure);
  return failure ? 0 : static_cast<std::int64_t>(space.available);
}

/// A new file without a name, with room on the disk for all its bytes: to run out of it later would be a SIGBUS. What
/// cannot have room is not begun: a file system fills the disk first and fails then, and all others who write there
/// at that moment fail with it.
class UnlinkedFile {
 public:
  UnlinkedFile(const std::string& directory, std::size_t bytes) {
    std::string name = directory + "/nsys-explain-events-XXXXXX";
    file_ = ::mkostemp(name.data(), O_CLOEXEC);
    int failure = file_ < 0 ? errno : 0;
    if (failure == 0) {
      ::unlink(name.c_str());
      failure = std::cmp_greater(bytes, free_bytes(directory)) ? ENOSPC
                                                               : ::posix_fallocate(file_, 0, static_cast<off_t>(bytes));
    }
    if (failure == 0) return;
    if (file_ >= 0) ::close(file_);
    throw std::runtime_error(fmt::format(
        "the temporary directory {} has no room for its events ({} bytes more: {}), which --memory-limit keeps out of memory, so it is left out; set TMPDIR to a disk with more room, or raise the limit",
        directory, bytes, std::generic_category().message(failure)));
  }
  ~UnlinkedFile() { ::close(file_); }
  UnlinkedFile(const UnlinkedFile&) = delete;
  UnlinkedFile& operator=(const UnlinkedFile&) = delete;

  /// Its bytes, which stay when the object goes. nullptr where they cannot be mapped.
  void* map(std::size_t bytes) const {
    void* const place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    return place == MAP_FAILED ? nullptr : place;
  }

 private:
  int file_ = -1;
};

bool lies_in_memory(const std::string& directory) {
  constexpr std::uint32_t tmpfs = 0x01021994, ramfs = 0x858458f6;  // statfs(2)
  struct statfs system {};
  if (::statfs(directory.c_str(), &system) != 0) return false;
  const auto type = static_cast<std::uint32_t>(system.f_type);
  return type == tmpfs || type == ramfs;
}

}  // namespace

std::int64_t available_on_disk(const std::string& directory) {
  return lies_in_memory(directory) ? 0 : free_bytes(directory);
}

void* FileMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes < least_bytes) return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  void* const place = UnlinkedFile(directory_, bytes).map(bytes);
  if (place == nullptr) throw std::bad_alloc();
  const std::int64_t held = held_ += static_cast<std::int64_t>(bytes);
  for (std::int64_t most = most_; held > most && !most_.compare_exchange_weak(most, held);) {
  }
  return place;
}

void FileMemory::do_deallocate(void* place, std::size_t bytes, std::size_t alignment) {
  if (bytes < least_bytes) return std::pmr::new_delete_resource()->deallocate(place, bytes, alignment);
  ::munmap(place, bytes);
  held_ -= static_cast<std::int64_t>(bytes);
}

}  // namespace nsys_explain::pipeline
