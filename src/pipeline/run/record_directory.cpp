#include "pipeline/run/record_directory.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <streambuf>

#include <fmt/format.h>

#include "model/hash.hpp"
#include "pipeline/run/whole_file.hpp"

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

std::optional<std::string> RecordDirectory::load(std::string_view key) const {
  std::ifstream file(file_of(key), std::ios::binary);
  Header header;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): a file is bytes
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!file || header.magic != magic || header.key_size != key.size()) return std::nullopt;
  std::error_code error;
  const std::uint64_t size = fs::file_size(file_of(key), error);
  // A size that cannot be true must not become an allocation.
  if (error || size < sizeof header + header.key_size || size - sizeof header - header.key_size != header.bytes_size) {
    return std::nullopt;
  }
  std::string found_key(header.key_size, '\0'), bytes(header.bytes_size, '\0');
  file.read(found_key.data(), static_cast<std::streamsize>(found_key.size()));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file || found_key != key || digest_of_words(bytes, fnv1a(key)) != header.digest) return std::nullopt;
  return bytes;
}

fs::path RecordDirectory::save(std::string_view key, const WriteBytes& write) const {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw std::runtime_error(fmt::format("cannot create {}: {}", path_.string(), error.message()));
  fs::path final_name = file_of(key);
  WholeFile file(final_name);
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
