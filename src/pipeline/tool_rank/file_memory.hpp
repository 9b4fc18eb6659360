#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <string>

namespace nsys_explain::pipeline {

/// Bytes that more files could hold; 0 where the directory is no directory, or lies in memory itself (tmpfs).
std::int64_t available_on_disk(const std::string& directory);

/// Memory that the system can take back: each large array lies in an unlinked temporary file of its own, mapped into
/// memory, so pages that nobody uses are written to the disk where memory is short (as a job's limit is reached, too),
/// and read again when they are needed. Small ones lie in ordinary memory. May be used by several threads.
///
/// As the default resource of std::pmr it holds the arrays with an entry per event, and no others: what MPI sends must
/// not lie in files (network cards cannot pin their pages).
class FileMemory final : public std::pmr::memory_resource {
 public:
  explicit FileMemory(std::string directory) : directory_(std::move(directory)) {}

  /// Bytes that the files held at most.
  std::int64_t most_bytes() const { return most_; }
  const std::string& directory() const { return directory_; }
  std::int64_t available_bytes() const { return available_on_disk(directory_); }

 private:
  /// Throws std::runtime_error where the disk has no room: problem, why it matters, what to do.
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* place, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  const std::string directory_;
  std::atomic<std::int64_t> held_ = 0, most_ = 0;
};

}  // namespace nsys_explain::pipeline
