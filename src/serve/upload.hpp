#pragma once

#include <optional>

#include "serve/analyses.hpp"
#include "serve/refusal.hpp"
#include "serve/report_tree.hpp"

namespace nsys_explain::serve {

/// Room on the disk of the reports, for all uploads together: what each has claimed and not yet written counts as
/// taken, and some stays free, for reports and for others.
class UploadRoom {
 public:
  static constexpr std::int64_t room_to_leave = 1'000'000'000;

  /// Where the disk does not tell, all claims have room.
  explicit UploadRoom(const std::string& directory);
  explicit UploadRoom(std::function<std::int64_t()> free_bytes) : free_bytes_(std::move(free_bytes)) {}

  /// Returns whether there is room for so many bytes beside all that is claimed; then they are, too.
  bool claim(std::int64_t bytes);
  /// They are written, or not wanted any more.
  void release(std::int64_t bytes);
  /// Whether still enough is free: others write, too.
  bool is_kept() const { return free_bytes_() >= room_to_leave; }

 private:
  const std::function<std::int64_t()> free_bytes_;
  std::mutex mutex_;
  std::int64_t claimed_bytes_ = 0;
};

/// One upload on its way to the disk, part by part: a field `name`, then files. What is not finished is removed.
class Upload {
 public:
  /// Throws Refusal where there is no place for it.
  Upload(Analyses& analyses, UploadRoom& room, std::int64_t most_bytes);
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  /// Throws Refusal where so many bytes are too many, or more than the disk has.
  void claim_room(std::int64_t bytes);
  /// The next part begins. Returns whether to go on; why not, `finish` says.
  bool begin_part(const std::string& field, const std::string& file);
  bool add(std::string_view bytes);
  /// Puts it into the queue. Throws Refusal.
  nlohmann::ordered_json finish(bool is_whole);

 private:
  bool refuse(Refusal refusal);
  bool end_part();
  /// Before so many bytes are written: returns whether there is room for them.
  bool keep_room(std::int64_t bytes);

  Analyses& analyses_;
  UploadRoom& room_;
  const std::int64_t most_bytes_;
  AnalysisInput input_;
  std::optional<Refusal> refusal_;
  std::string field_;
  bool has_name_ = false;
  Descriptor file_;
  std::int64_t bytes_ = 0, claimed_bytes_ = 0, unlooked_bytes_ = 0;
};

/// As renameat2(2).
using RenameAt = int (*)(int, const char*, int, const char*, unsigned);

/// Moves a directory, in one step, to a name under which nothing lies: never over what has come meanwhile. Where the
/// file system has no such step (NFS), over an empty directory that comes within microseconds, and over nothing else.
/// Returns 0, or what `errno` said.
int put_in_place(const std::filesystem::path& directory, const std::filesystem::path& target, RenameAt rename);
int put_in_place(const std::filesystem::path& directory, const std::filesystem::path& target);

}  // namespace nsys_explain::serve
