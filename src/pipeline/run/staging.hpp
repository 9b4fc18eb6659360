#pragma once

#include <filesystem>
#include <string_view>

namespace nsys_explain::pipeline {

/// A new directory for what is not complete yet: of this process, for as long as it lives. The system knows so by the
/// lock on a file in it, on whatever host it runs, and lets go of the lock however the process ends.
class StagingDirectory {
 public:
  /// Below `parent`, named `prefix` and six letters. Removes those of the kind that were left by processes that were
  /// killed. Throws std::system_error.
  StagingDirectory(const std::filesystem::path& parent, std::string_view prefix);
  ~StagingDirectory();  ///< removes it, with all that it holds
  StagingDirectory(const StagingDirectory&) = delete;
  StagingDirectory& operator=(const StagingDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Removes it, with all that it holds.
  void remove() const;
  /// What lies in it becomes the directory `target`, which must not be there. Returns whether it did; if not, all is as
  /// before.
  bool become(const std::filesystem::path& target);

  /// The file in it that says whose it is.
  static constexpr std::string_view owner_name = ".nsys-explain-owner";

 private:
  void make_owner();

  std::filesystem::path path_;
  int descriptor_ = -1;  ///< of the owner's file, locked
};

/// Removes the directories `prefix` and six letters in `parent` that StagingDirectory made and whose process ended.
void remove_abandoned(const std::filesystem::path& parent, std::string_view prefix);

}  // namespace nsys_explain::pipeline
