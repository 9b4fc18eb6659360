#include "serve/upload.hpp"

#include <cerrno>
#include <cstdio>
#include <limits>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace nsys_explain::serve {

namespace {

constexpr std::size_t longest_export_name = 100;
constexpr std::int64_t claim_bytes = 16'000'000;  ///< claimed, and looked after, at a time while data arrive

Refusal no_room() {
  return {507, "the disk of the reports has no room for so much", "so nothing was kept",
          "make room, or analyse where the exports lie"};
}

}  // namespace

Upload::Upload(Analyses& analyses, UploadRoom& room, std::int64_t most_bytes)
    : analyses_(analyses), room_(room), most_bytes_(most_bytes) {
  input_.directory = analyses.make_upload_directory();
}

Upload::~Upload() {
  room_.release(claimed_bytes_);
  std::error_code ignored;
  if (!input_.directory.empty()) std::filesystem::remove_all(input_.directory, ignored);
}

void Upload::claim_room(std::int64_t bytes) {
  if (bytes - 1'000'000 > most_bytes_) {
    throw Refusal(413, fmt::format("{} bytes are more than --upload-limit allows", bytes), "so nothing was kept",
                  "upload fewer exports, or analyse where they lie");
  }
  if (!room_.claim(bytes)) throw no_room();
  claimed_bytes_ += bytes;
}

bool Upload::keep_room(std::int64_t bytes) {
  if (bytes > claimed_bytes_) {
    if (!room_.claim(bytes + claim_bytes)) return false;
    claimed_bytes_ += bytes + claim_bytes;
  }
  unlooked_bytes_ += bytes;
  if (unlooked_bytes_ < claim_bytes) return true;
  unlooked_bytes_ = 0;
  return room_.is_kept();
}

bool Upload::refuse(Refusal refusal) {
  if (!refusal_) refusal_ = std::move(refusal);
  return false;
}

bool Upload::end_part() {
  file_ = Descriptor();
  if (field_ != "name") return true;
  field_.clear();
  has_name_ = true;
  try {
    analyses_.check(input_.name);
  } catch (const Refusal& refusal) {
    return refuse(refusal);
  }
  return true;
}

bool Upload::begin_part(const std::string& field, const std::string& file) {
  if (!end_part()) return false;
  field_ = field;
  if (field == "name" && !has_name_) return true;
  if (field != "files") {
    return refuse({400, fmt::format("there is no field '{}' here", field), "so nothing was kept",
                   "send a field 'name', then 'files'"});
  }
  if (!has_name_) {
    return refuse({400, "the field 'name' does not come first", "so nobody can tell which report this becomes",
                   "send a field 'name', then 'files'"});
  }
  if (!is_export_name(file)) {
    return refuse({400, fmt::format("'{}' is no name for an export", file), "so it is not written to the disk",
                   "end in .sqlite, and use letters, digits, '.', '-' and '_', with a letter or a digit first"});
  }
  const std::filesystem::path path = input_.directory / "exports" / file;
  file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file_) return true;
  return refuse(errno == EEXIST ? Refusal(400, fmt::format("two files are called '{}'", file),
                                          "so one would replace the other", "give each export a name of its own")
                                : no_room());
}

bool Upload::add(std::string_view bytes) {
  bytes_ += static_cast<std::int64_t>(bytes.size());
  if (bytes_ > most_bytes_) {
    return refuse({413, fmt::format("this is more than the {} bytes that --upload-limit allows", most_bytes_),
                   "so nothing was kept", "upload fewer exports, or analyse where they lie"});
  }
  if (field_ == "name") {
    input_.name += bytes;
    if (input_.name.size() <= longest_export_name) return true;
    return refuse({400, "the name is too long", "so no report can have it", "give at most 100 characters"});
  }
  if (!keep_room(static_cast<std::int64_t>(bytes.size()))) return refuse(no_room());
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.number(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return refuse(no_room());
    bytes.remove_prefix(static_cast<std::size_t>(count));
    room_.release(count);
    claimed_bytes_ -= count;
  }
  return true;
}

nlohmann::ordered_json Upload::finish(bool is_whole) {
  if (is_whole) end_part();
  if (refusal_) throw Refusal(*refusal_);
  if (!is_whole || !has_name_) {
    throw Refusal(400, "the upload was cut off, too slow, or no form with 'name' and 'files'", "so nothing was kept",
                  "send it again, as curl -F name=job8 -F files=@rank_0.sqlite does");
  }
  nlohmann::ordered_json status = analyses_.add(input_);
  input_.directory.clear();  // whose they are now
  return status;
}

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
