#include "pipeline/run/gzip_file.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <unistd.h>
#include <zlib.h>

namespace nsys_explain::pipeline {
namespace {

constexpr const char* timeline_advice = "without it there is no timeline; choose another --perfetto or make room there";

}  // namespace

GzipFile::GzipFile(const std::string& path) : file_(path, timeline_advice) {
  const int descriptor = ::dup(file_.descriptor());
  compressed_ = descriptor < 0 ? nullptr : ::gzdopen(descriptor, "wb6");
  if (compressed_ != nullptr) return;
  if (descriptor >= 0) ::close(descriptor);
  file_.fail();
}

GzipFile::~GzipFile() {
  if (compressed_ != nullptr) ::gzclose(compressed_);
}

void GzipFile::write(std::string_view text) {
  constexpr std::size_t at_once = std::size_t{1} << 30U;  // zlib counts bytes in an int
  while (!text.empty()) {
    const std::size_t length = std::min(text.size(), at_once);
    if (::gzwrite(compressed_, text.data(), static_cast<unsigned>(length)) <= 0) file_.fail();
    text.remove_prefix(length);
  }
}

void GzipFile::publish() {
  if (::gzclose(std::exchange(compressed_, nullptr)) != Z_OK) file_.fail();
  file_.publish();
}

}  // namespace nsys_explain::pipeline
