#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace nsys_explain::pipeline {

/// One line on a terminal while traces are read: files, rows, what is left. Speaks only on tool rank 0, of its own
/// traces, and only where somebody looks. All members may be called from several threads.
class Progress {
 public:
  /// `shows`: on standard error; else it counts in silence.
  Progress(std::int64_t files, std::int64_t bytes, bool shows) : files_(files), bytes_(bytes), shows_(shows) {}
  /// Wipes the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add_rows(std::int64_t rows);
  void finish_file(std::int64_t bytes);

  std::int64_t rows() const { return rows_done_; }
  std::int64_t bytes() const { return bytes_done_; }

 private:
  using Clock = std::chrono::steady_clock;
  void draw();

  const std::int64_t files_, bytes_;
  const bool shows_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<std::int64_t> files_done_ = 0, bytes_done_ = 0, rows_done_ = 0;
  std::mutex drawing_;
  Clock::time_point drawn_ = start_;
};

/// True where standard error is a terminal.
bool stderr_is_terminal();

}  // namespace nsys_explain::pipeline
