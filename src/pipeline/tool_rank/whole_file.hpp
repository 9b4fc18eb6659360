#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace nsys_explain::pipeline {

/// A file that appears whole or not at all: written beside the final one, under a name that nobody can foresee and that
/// was free, then renamed, which replaces an older file or a symbolic link of that name and follows none. Permissions
/// are those of any new file of this user. Every function throws std::runtime_error; its message ends with `advice`.
class WholeFile {
 public:
  /// `advice`: why it matters, what to do.
  explicit WholeFile(std::filesystem::path path, std::string advice = "");
  ~WholeFile();  ///< removes what was not published
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::string_view bytes);
  /// Replaces bytes that were written already.
  void rewrite(std::int64_t offset, std::string_view bytes);
  void publish();

  /// Whether a path is named as what is being written, or was when its program was killed.
  static bool is_unfinished(const std::filesystem::path& path);

  /// For what writes by itself; where it cannot, it calls fail(), which throws why: what `errno` says.
  int descriptor() const { return descriptor_; }
  [[noreturn]] void fail() const;

 private:
  std::filesystem::path path_, unfinished_;
  std::string advice_;
  int descriptor_ = -1;
};

}  // namespace nsys_explain::pipeline
