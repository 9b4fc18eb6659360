#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <streambuf>
#include <string>
#include <string_view>

namespace nsys_explain::pipeline {

/// Writes the bytes of a record. They are many, and need not be in memory all at once.
using WriteBytes = std::function<void(std::streambuf&)>;

/// Whose records are taken. What is read of one goes far without a second look, so in a directory that others can write
/// to it has to be this user's: `own` takes files that belong to the user or to root and that nobody else can write to.
/// `anybody`: the user named the directory as input.
enum class RecordsOf : std::uint8_t { own, anybody };

/// A directory of records: bytes kept under a key, one file each. A record appears whole or not at all, whoever writes
/// it and however often; a damaged one, or one of another layout, is as good as none.
class RecordDirectory {
 public:
  explicit RecordDirectory(std::filesystem::path path, RecordsOf whose = RecordsOf::own)
      : path_(std::move(path)), whose_(whose) {}

  const std::filesystem::path& path() const { return path_; }

  /// Nothing where there is no whole record with this key, or somebody else's.
  std::optional<std::string> load(std::string_view key) const;

  /// Whether there is a file for this key that is not taken, whatever it holds.
  bool is_foreign(std::string_view key) const;

  /// Whether there is a file for this key, whole or not.
  bool contains(std::string_view key) const;
  std::filesystem::path file_of(std::string_view key) const;

  /// Creates the directory where it is missing, and has the record's bytes written. Returns the record's file. Throws
  /// std::runtime_error with the reason.
  std::filesystem::path save(std::string_view key, const WriteBytes& write) const;

  /// Whether a file is a record of any layout, or the beginning of one.
  static bool is_record(const std::filesystem::path& file);

 private:
  std::filesystem::path path_;
  RecordsOf whose_;
};

}  // namespace nsys_explain::pipeline
