#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

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

}  // namespace nsys_explain::serve
