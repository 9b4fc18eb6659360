#pragma once

#include <string>
#include <string_view>

#include "pipeline/run/whole_file.hpp"

struct gzFile_s;

namespace nsys_explain::pipeline {

/// A whole file that is compressed while it is written. Equal texts give equal bytes: no time of writing is in it.
/// Every function throws std::runtime_error (problem, why it matters, what to do).
class GzipFile {
 public:
  explicit GzipFile(const std::string& path);
  ~GzipFile();
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  void write(std::string_view text);
  void publish();

 private:
  WholeFile file_;
  gzFile_s* compressed_;
};

}  // namespace nsys_explain::pipeline
