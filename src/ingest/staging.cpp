#include "ingest/staging.hpp"

#include <cctype>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nsys_explain::ingest {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view owner_mark = "staging directory of nsys-explain-mpi\n";
constexpr std::size_t random_letters = 6;  // mkdtemp's
constexpr std::string_view scratch_prefix = "nsys-explain-";

/// The directories of this process that live. Held for no work on disks, which may hang.
struct Living {
  std::mutex mutex;
  std::map<const StagingDirectory*, fs::path> paths;
};
Living& living() {
  static auto* const all = new Living;  // outlives whatever ends last
  return *all;
}

bool is_named(const fs::path& path, std::string_view prefix) {
  const std::string name = path.filename().string();
  if (!name.starts_with(prefix) || name.size() != prefix.size() + random_letters) return false;
  for (const char c : name.substr(prefix.size()))
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) return false;
  return true;
}

constexpr std::string_view unlocked_suffix = ".new";

/// The file that says whose a directory is, or is about to say so. Returns a descriptor; -1: there is neither.
int open_owner(const fs::path& directory) {
  const std::string owner = (directory / StagingDirectory::owner_name).string();
  for (const std::string& name : {owner, owner + std::string(unlocked_suffix)}) {
    const int descriptor =
        ::open(name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);  // NFS locks what it writes
    if (descriptor >= 0 || errno != ENOENT) return descriptor;
  }
  return -1;
}

/// What says whose it is goes last: whatever comes between, the next one can go on.
void remove_staging(const fs::path& directory) {
  std::error_code ignored;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(directory, ignored), end; !ignored && entry != end; entry.increment(ignored))
    if (entry->path().filename() != StagingDirectory::owner_name) entries.push_back(entry->path());
  for (const fs::path& entry : entries) fs::remove_all(entry, ignored);
  fs::remove_all(directory, ignored);
}

/// Removes the directory if it is ours and its process is no more. Where locks cannot be had, nobody knows. One that is
/// as mkdtemp makes it, and empty, is nobody's: who has just made it makes another.
void remove_if_abandoned(const fs::path& directory) {
  struct stat facts {};
  if (::lstat(directory.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) return;
  const bool may_be_new = facts.st_uid == ::geteuid() && (facts.st_mode & 0777U) == 0700U;
  if (may_be_new && ::rmdir(directory.c_str()) == 0) return;
  const int descriptor = open_owner(directory);
  if (descriptor < 0) return;
  std::string mark(owner_mark.size(), '\0');
  const ssize_t bytes = ::pread(descriptor, mark.data(), mark.size(), 0);
  const bool is_ours = bytes == 0 || (bytes == static_cast<ssize_t>(mark.size()) && mark == owner_mark);
  if (is_ours && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) remove_staging(directory);
  ::close(descriptor);
}

}  // namespace

StagingDirectory::StagingDirectory(const fs::path& parent, std::string_view prefix) {
  remove_abandoned(parent, prefix);
  do {
    std::string pattern = (parent / prefix).string() + std::string(random_letters, 'X');
    if (::mkdtemp(pattern.data()) == nullptr)
      throw std::system_error(errno, std::generic_category(), "cannot create a directory in " + parent.string());
    const std::scoped_lock lock(living().mutex);
    living().paths[this] = path_ = pattern;
  } while (!make_owner());
}

/// Under its name only once it is locked: whoever finds it finds it locked. Returns false where another process took
/// the directory for an abandoned one before that.
bool StagingDirectory::make_owner() {
  const fs::path owner = path_ / owner_name;
  const fs::path before = owner.string() + std::string(unlocked_suffix);
  descriptor_ = ::open(before.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor_ < 0) return errno != ENOENT;  // else the disk takes nothing: results will say so
  const bool is_written =
      ::write(descriptor_, owner_mark.data(), owner_mark.size()) == static_cast<ssize_t>(owner_mark.size());
  const bool is_locked = is_written && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  bool is_taken = is_written && !is_locked && errno == EWOULDBLOCK;
  if (is_locked) {
    if (::rename(before.c_str(), owner.c_str()) == 0) return true;
    is_taken = errno == ENOENT;
  }
  if (!is_taken) {  // no locks, or no room: the next run cannot tell whose it is
    ::unlink(before.c_str());
    return true;
  }
  ::close(descriptor_);
  descriptor_ = -1;
  return false;
}

StagingDirectory::~StagingDirectory() {
  if (!path_.empty()) remove_staging(path_);
  if (descriptor_ >= 0) ::close(descriptor_);
  const std::scoped_lock lock(living().mutex);
  living().paths.erase(this);
}

bool StagingDirectory::become(const fs::path& target) {
  std::error_code error;
  fs::rename(path_, target, error);
  if (error) return false;
  path_.clear();
  {
    const std::scoped_lock lock(living().mutex);
    living().paths.erase(this);
  }
  fs::remove(target / owner_name, error);
  return true;
}

ScratchDirectory::ScratchDirectory() : StagingDirectory(fs::temp_directory_path(), scratch_prefix) {}

void ScratchDirectory::remove_abandoned_ones() {
  std::error_code missing;
  const fs::path parent = fs::temp_directory_path(missing);
  if (!missing) remove_abandoned(parent, scratch_prefix);
}

void remove_own_staging() {
  std::map<const StagingDirectory*, fs::path> left;
  {
    const std::scoped_lock lock(living().mutex);
    left = living().paths;
  }
  for (const auto& entry : left) remove_staging(entry.second);
}

void remove_abandoned(const fs::path& parent, std::string_view prefix) {
  std::error_code error;
  std::vector<fs::path> named;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error))
    if (is_named(entry->path(), prefix)) named.push_back(entry->path());
  for (const fs::path& directory : named) remove_if_abandoned(directory);
}

}  // namespace nsys_explain::ingest
