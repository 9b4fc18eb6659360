#pragma once

#include <cstddef>
#include <string>
#include <string_view>

struct gzFile_s;

namespace nsys_explain::pipeline {

/// A file that is compressed while it is written, beside the final one, which it replaces when it is complete. Equal
/// texts give equal bytes: no time of writing is in it. Every function throws std::runtime_error (problem, why it
/// matters, what to do).
class GzipFile {
 public:
  explicit GzipFile(const std::string& path);
  ~GzipFile();  ///< removes what was not published
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  void write(std::string_view text);
  void publish();

 private:
  std::string path_, part_;
  gzFile_s* file_;
};

}  // namespace nsys_explain::pipeline
