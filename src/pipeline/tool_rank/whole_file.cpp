#include "pipeline/tool_rank/whole_file.hpp"

#include <cerrno>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view unfinished_prefix = ".nsys-explain-";

/// mkostemp() would do, but for the permissions: 0600 whatever the umask and the access lists of the directory say.
fs::path random_name_beside(const fs::path& path) {
  std::random_device random;
  const std::uint64_t number = (std::uint64_t{random()} << 32U) | random();
  return path.parent_path() / fmt::format("{}{:016x}", unfinished_prefix, number);
}

}  // namespace

bool WholeFile::is_unfinished(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(unfinished_prefix) && name.size() == unfinished_prefix.size() + 16 &&
         name.find_first_not_of("0123456789abcdef", unfinished_prefix.size()) == std::string::npos;
}

WholeFile::WholeFile(fs::path path, std::string advice) : path_(std::move(path)), advice_(std::move(advice)) {
  std::error_code ignored;
  const fs::file_status present = fs::symlink_status(path_, ignored);
  if (fs::exists(present) && !fs::is_regular_file(present) && !fs::is_symlink(present)) {
    errno = fs::is_directory(present) ? EISDIR : EEXIST;  // a device is not to be replaced
    fail();
  }
  do {
    unfinished_ = random_name_beside(path_);
    // Where the name is taken, be it by a symbolic link, O_EXCL fails.
    descriptor_ = ::open(unfinished_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail();
}

WholeFile::~WholeFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(unfinished_.c_str());
}

void WholeFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t taken = ::write(descriptor_, bytes.data(), bytes.size());
    if (taken < 0 && errno != EINTR) fail();
    if (taken > 0) bytes.remove_prefix(static_cast<std::size_t>(taken));
  }
}

void WholeFile::rewrite(std::int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t taken = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (taken < 0 && errno != EINTR) fail();
    if (taken <= 0) continue;
    bytes.remove_prefix(static_cast<std::size_t>(taken));
    offset += taken;
  }
}

void WholeFile::publish() {
  const int descriptor = std::exchange(descriptor_, -1);
  const bool is_complete = ::close(descriptor) == 0;  // some file systems say only now that the disk is full
  if (is_complete && ::rename(unfinished_.c_str(), path_.c_str()) == 0) return;
  const int reason = errno;
  ::unlink(unfinished_.c_str());
  errno = reason;
  fail();
}

void WholeFile::fail() const {
  throw std::runtime_error(fmt::format("cannot write {}: {}{}{}", path_.string(),
                                       std::generic_category().message(errno), advice_.empty() ? "" : "; ", advice_));
}

}  // namespace nsys_explain::pipeline
