#include "pipeline/tool_rank/record_directory.hpp"

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <streambuf>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/hash.hpp"
#include "pipeline/tool_rank/whole_file.hpp"

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 16> magic = {'n', 's', 'y', 's', '-', 'e', 'x', 'p', 'l', 'a', 'i', 'n', ' ', 'r', '0', '2'};

/// Without the number of the layout.
constexpr std::string_view record_mark(magic.data(), magic.size() - 2);

/// In front of key and bytes, as this machine stores integers: records do not travel between kinds of machines.
struct Header {
  std::array<char, 16> magic = {};
  std::uint64_t key_size = 0;
  std::uint64_t bytes_size = 0;
  std::uint64_t digest = 0;  ///< of key and bytes
};

/// Of megabytes, so eight bytes at a time; no change of a single word leaves it as it is. `seen`: the digest of what
/// came before, whole words.
std::uint64_t digest_of_words(std::string_view bytes, std::uint64_t seen) {
  const auto add = [&](std::string_view word) {
    std::uint64_t value = 0;
    std::memcpy(&value, word.data(), word.size());
    seen = std::rotl((seen ^ value) * golden_ratio, 29);
  };
  constexpr std::size_t word_size = sizeof(std::uint64_t);
  for (; bytes.size() >= word_size; bytes.remove_prefix(word_size)) add(bytes.substr(0, word_size));
  if (!bytes.empty()) add(bytes);
  return seen;
}

/// Takes the bytes of a record on their way to the file.
class BytesToFile final : public std::streambuf {
 public:
  BytesToFile(WholeFile& file, std::uint64_t seed) : file_(file), digest_(seed) { buffer_.reserve(buffer_bytes); }

  /// Call once all bytes have come.
  void finish() {
    digest_ = digest_of_words(buffer_, digest_);
    size_ += buffer_.size();
    file_.write(buffer_);
    buffer_.clear();
  }
  std::uint64_t size() const { return size_; }
  std::uint64_t digest() const { return digest_; }

 protected:
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    for (std::string_view rest(bytes, static_cast<std::size_t>(count)); !rest.empty();) {
      const std::string_view part = rest.substr(0, buffer_bytes - buffer_.size());
      buffer_.append(part);
      rest.remove_prefix(part.size());
      if (buffer_.size() == buffer_bytes) finish();
    }
    return count;
  }
  int_type overflow(int_type byte) override {
    const char character = traits_type::to_char_type(byte);
    xsputn(&character, 1);
    return byte;
  }

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 18;  ///< whole words
  WholeFile& file_;
  std::string buffer_;
  std::uint64_t size_ = 0, digest_;
};

std::string_view bytes_of(const Header& header) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): a file is bytes
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

/// For reading; what it is is asked of what was opened, since a name may come to mean another file.
class OpenRecord {
 public:
  /// O_NONBLOCK: nobody may ever write to a pipe of that name.
  explicit OpenRecord(const fs::path& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ >= 0 && ::fstat(descriptor_, &facts_) != 0) facts_ = {};
  }
  ~OpenRecord() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenRecord(const OpenRecord&) = delete;
  OpenRecord& operator=(const OpenRecord&) = delete;

  bool is_taken(RecordsOf whose) const {
    if (descriptor_ < 0 || !S_ISREG(facts_.st_mode)) return false;
    if (whose == RecordsOf::anybody) return true;
    return (facts_.st_uid == ::geteuid() || facts_.st_uid == 0) && (facts_.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  }
  std::uint64_t size() const { return static_cast<std::uint64_t>(facts_.st_size); }

  /// Whether that many bytes were there.
  bool read(void* target, std::size_t count, std::uint64_t offset) const {
    auto* at = static_cast<char*>(target);
    while (count > 0) {
      const ssize_t got = ::pread(descriptor_, at, count, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      offset += static_cast<std::uint64_t>(got);
      count -= static_cast<std::size_t>(got);
    }
    return true;
  }

 private:
  int descriptor_;
  struct stat facts_ {};
};

/// Nobody else may write to it, whatever the umask says.
void keep_from_others(int descriptor) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) == 0) ::fchmod(descriptor, facts.st_mode & 0755U);
}

}  // namespace

bool RecordDirectory::is_record(const fs::path& file) {
  if (WholeFile::is_unfinished(file)) return true;
  std::array<char, record_mark.size()> beginning = {};
  std::ifstream content(file, std::ios::binary);
  content.read(beginning.data(), beginning.size());
  return std::string_view(beginning.data(), beginning.size()) == record_mark;
}

fs::path RecordDirectory::file_of(std::string_view key) const {
  return path_ / fmt::format("{:016x}.record", fnv1a(key));
}

bool RecordDirectory::contains(std::string_view key) const {
  std::error_code ignored;
  return fs::exists(file_of(key), ignored);
}

bool RecordDirectory::is_foreign(std::string_view key) const {
  return contains(key) && !OpenRecord(file_of(key)).is_taken(whose_);
}

std::optional<std::string> RecordDirectory::load(std::string_view key) const {
  const OpenRecord file(file_of(key));
  Header header;
  if (!file.is_taken(whose_) || !file.read(&header, sizeof header, 0)) return std::nullopt;
  if (header.magic != magic || header.key_size != key.size()) return std::nullopt;
  // A size that cannot be true must not become an allocation.
  const std::uint64_t before = sizeof header + header.key_size;
  if (file.size() < before || file.size() - before != header.bytes_size) return std::nullopt;
  std::string found_key(header.key_size, '\0'), bytes(header.bytes_size, '\0');
  if (!file.read(found_key.data(), found_key.size(), sizeof header)) return std::nullopt;
  if (!file.read(bytes.data(), bytes.size(), before)) return std::nullopt;
  if (found_key != key || digest_of_words(bytes, fnv1a(key)) != header.digest) return std::nullopt;
  return bytes;
}

fs::path RecordDirectory::save(std::string_view key, const WriteBytes& write) const {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw std::runtime_error(fmt::format("cannot create {}: {}", path_.string(), error.message()));
  fs::path final_name = file_of(key);
  WholeFile file(final_name);
  keep_from_others(file.descriptor());
  Header header{magic, key.size(), 0, 0};
  file.write(bytes_of(header));
  file.write(key);
  BytesToFile bytes(file, fnv1a(key));
  write(bytes);
  bytes.finish();
  header.bytes_size = bytes.size();
  header.digest = bytes.digest();
  file.rewrite(0, bytes_of(header));
  file.publish();
  return final_name;
}

}  // namespace nsys_explain::pipeline
