#pragma once

#include <cstdint>
#include <vector>

#include "collectives/extraction.hpp"
#include "nsys_explain/model/diagnostic.hpp"

namespace nsys_explain::pipeline {

/// Communication kernels of a process, and those of them that need a word.
struct ArrivalCounts {
  std::int64_t communication = 0, without_call = 0, replayed = 0, fused = 0, without_peer = 0;

  void add(const collectives::DeviceArrivals& device);
};

void warn_about_arrivals(const ArrivalCounts& counts, std::vector<Warning>& warnings);

}  // namespace nsys_explain::pipeline
