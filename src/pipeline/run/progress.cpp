#include "pipeline/run/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace nsys_explain::pipeline {

bool stderr_is_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

Progress::~Progress() {
  if (shows_ && drawn_ != start_) fmt::print(stderr, "\r\x1b[K");
}

void Progress::add_rows(std::int64_t rows) {
  rows_done_ += rows;
  draw();
}

void Progress::finish_file(std::int64_t bytes) {
  bytes_done_ += bytes;
  ++files_done_;
  draw();
}

/// What is left is told from whole files: how much of a file will be read is not known before.
void Progress::draw() {
  if (!shows_) return;
  const std::unique_lock lock(drawing_, std::try_to_lock);
  const Clock::time_point now = Clock::now();
  if (!lock || now - drawn_ < std::chrono::milliseconds(200)) return;
  drawn_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string line = fmt::format("reading traces: {} of {} files, {:.1f} million rows, {:.0f} s", files_done_.load(),
                                 files_, static_cast<double>(rows_done_) / 1e6, seconds);
  if (bytes_done_ > 0) {
    const double left = static_cast<double>(bytes_ - bytes_done_) / static_cast<double>(bytes_done_.load());
    line += fmt::format(", about {:.0f} s left", seconds * left);
  }
  fmt::print(stderr, "\r{}\x1b[K", line);
}

}  // namespace nsys_explain::pipeline
