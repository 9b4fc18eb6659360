#include "pipeline/tool_rank/phases.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

namespace nsys_explain::pipeline {

namespace {

/// What the system counts as memory of this process (Linux, proc(5)).
struct HeldMemory {
  std::int64_t now_bytes = 0;   ///< 0 where it does not tell
  std::int64_t most_bytes = 0;  ///< since the start of the process
};

HeldMemory held_memory() {
  HeldMemory held;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t* const bytes = word == "VmHWM:" ? &held.most_bytes : word == "VmRSS:" ? &held.now_bytes : nullptr;
    if (bytes != nullptr && status >> *bytes) *bytes *= 1024;
  }
  if (held.most_bytes > 0) return held;
  struct rusage usage {};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) held.most_bytes = usage.ru_maxrss * 1024;
  return held;
}

/// The mark could be made to begin anew with each phase, but it is what the system tells others of the process, too:
/// in a phase that stays below it, what was held at its beginning and end stands for what was held meanwhile.
std::int64_t most_held(const HeldMemory& before, const HeldMemory& after) {
  const bool rose = after.most_bytes > before.most_bytes || after.now_bytes == 0;
  return rose ? after.most_bytes : std::max(before.now_bytes, after.now_bytes);
}

}  // namespace

void Phases::measured(const std::string& name, const std::function<void()>& work) {
  rows_ = bytes_ = 0;
  watch_.doing(name, false);
  const HeldMemory before = held_memory();
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  mine_.push_back({name, elapsed.count(), rows_, bytes_, most_held(before, held_memory())});
}

std::vector<RunFacts::Phase> Phases::finished() const {
  std::vector<std::int64_t> largest, summed;
  for (const RunFacts::Phase& phase : mine_) {
    largest.insert(largest.end(), {std::llround(phase.seconds * 1e9), phase.peak_memory_bytes});
    summed.insert(summed.end(), {phase.rows, phase.bytes});
  }
  largest = communicator_.maximum(largest);
  summed = communicator_.sum(summed);
  std::vector<RunFacts::Phase> phases = mine_;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    phases[i].seconds = static_cast<double>(largest[2 * i]) / 1e9;
    phases[i].peak_memory_bytes = largest[2 * i + 1];
    phases[i].rows = summed[2 * i];
    phases[i].bytes = summed[2 * i + 1];
  }
  return phases;
}

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
