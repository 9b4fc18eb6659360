#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <streambuf>
#include <string>
#include <string_view>

namespace nsys_explain::pipeline {

/// Writes the bytes of a record. They are many, and need not be in memory all at once.
using WriteBytes = std::function<void(std::streambuf&)>;

/// A directory of records: bytes kept under a key, one file each. A record appears whole or not at all, whoever writes
/// it and however often; a damaged one, or one of another layout, is as good as none.
class RecordDirectory {
 public:
  explicit RecordDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }

  /// Nothing where there is no whole record with this key.
  std::optional<std::string> load(std::string_view key) const;

  /// Whether there is a file for this key, whole or not.
  bool contains(std::string_view key) const;
  std::filesystem::path file_of(std::string_view key) const;

  /// Creates the directory where it is missing, and has the record's bytes written. Returns the record's file. Throws
  /// std::runtime_error with the reason.
  std::filesystem::path save(std::string_view key, const WriteBytes& write) const;

 private:
  std::filesystem::path path_;
};

}  // namespace nsys_explain::pipeline
