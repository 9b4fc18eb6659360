#include "pipeline/run/phases.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>

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

}  // namespace nsys_explain::pipeline
