#include "pipeline/run/phases.hpp"

#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <fstream>

namespace nsys_explain::pipeline {
namespace {

/// Lets the system's high-water mark of our memory begin anew (Linux, proc(5): clear_refs). Where it cannot, the mark
/// is that of the run so far.
void reset_peak_memory() {
  std::ofstream("/proc/self/clear_refs") << '5';
}

std::int64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    std::int64_t kibibytes = 0;
    if (status >> kibibytes) return kibibytes * 1024;
  }
  struct rusage usage {};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss * 1024 : 0;
}

}  // namespace

void Phases::measured(const std::string& name, const std::function<void()>& work) {
  rows_ = bytes_ = 0;
  watch_.doing(name, false);
  reset_peak_memory();
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  mine_.push_back({name, elapsed.count(), rows_, bytes_, peak_memory_bytes()});
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
