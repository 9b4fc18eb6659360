#pragma once

#include <filesystem>
#include <string_view>

namespace nsys_explain::ingest {

/// A new directory for what is not complete yet: of this process, for as long as it lives. The system knows so by the
/// lock on a file in it, on whatever host it runs, and lets go of the lock however the process ends.
class StagingDirectory {
 public:
  /// Below `parent`, named `prefix` and six letters. Removes those of the kind that were left by processes that were
  /// killed. Throws std::system_error.
  StagingDirectory(const std::filesystem::path& parent, std::string_view prefix);
  virtual ~StagingDirectory();  ///< removes it, with all that it holds
  StagingDirectory(const StagingDirectory&) = delete;
  StagingDirectory& operator=(const StagingDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// What lies in it becomes the directory `target`, which must not be there. Returns whether it did; if not, all is as
  /// before.
  bool become(const std::filesystem::path& target);

  /// The file in it that says whose it is.
  static constexpr std::string_view owner_name = ".nsys-explain-owner";

 private:
  bool make_owner();

  std::filesystem::path path_;
  int descriptor_ = -1;  ///< of the owner's file, locked
};

/// For what one trace needs while it is read: a copy, an export. Under $TMPDIR (or the system's place for temporary
/// files), readable by this user only.
class ScratchDirectory final : public StagingDirectory {
 public:
  ScratchDirectory();
  /// Removes those of killed runs that this user can remove. Never throws.
  static void remove_abandoned_ones();
};

/// Removes all of this process that live, for an end without destructors. From any thread; never throws.
void remove_own_staging();

/// Removes the directories `prefix` and six letters in `parent` that StagingDirectory made and whose process ended.
void remove_abandoned(const std::filesystem::path& parent, std::string_view prefix);

}  // namespace nsys_explain::ingest
