#include "pipeline/run/gzip_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>
#include <zlib.h>

namespace nsys_explain::pipeline {
namespace {

std::runtime_error cannot_write(const std::string& path, std::string_view why) {
  return std::runtime_error(fmt::format(
      "cannot write {}: {}; without it there is no timeline; choose another --perfetto or make room there", path, why));
}

}  // namespace

GzipFile::GzipFile(const std::string& path)
    : path_(path), part_(path + ".part"), file_(::gzopen(part_.c_str(), "wb6")) {
  if (file_ == nullptr) throw cannot_write(path_, std::strerror(errno));
}

GzipFile::~GzipFile() {
  if (file_ == nullptr) return;
  ::gzclose(file_);
  std::error_code ignored;
  std::filesystem::remove(part_, ignored);
}

void GzipFile::write(std::string_view text) {
  constexpr std::size_t at_once = std::size_t{1} << 30U;  // zlib counts bytes in an int
  while (!text.empty()) {
    const std::size_t length = std::min(text.size(), at_once);
    if (::gzwrite(file_, text.data(), static_cast<unsigned>(length)) <= 0) {
      throw cannot_write(path_, "the disk did not take it");
    }
    text.remove_prefix(length);
  }
}

void GzipFile::publish() {
  gzFile_s* file = file_;
  file_ = nullptr;
  std::error_code error;
  if (::gzclose(file) != Z_OK) {
    std::filesystem::remove(part_, error);
    throw cannot_write(path_, "the disk did not take it");
  }
  std::filesystem::rename(part_, path_, error);
  if (error) throw cannot_write(path_, error.message());
}

}  // namespace nsys_explain::pipeline
