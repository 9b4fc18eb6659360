#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {

/// What is usual in each bin: the lower median over the ranks of which it is known, those with kernels; 0 where there
/// are none. Both by rank, then bin.
inline std::vector<std::int64_t> usual_in_bins(std::span<const std::int64_t> values,
                                               std::span<const std::int64_t> kernel_ns, std::size_t bins) {
  std::vector<std::int64_t> usual(bins, 0);
  for (std::size_t b = 0; b < bins; ++b) {
    std::vector<std::int64_t> known;
    for (std::size_t i = b; i < values.size(); i += bins)
      if (kernel_ns[i] > 0) known.push_back(values[i]);
    if (!known.empty()) usual[b] = lower_median(std::move(known));
  }
  return usual;
}

}  // namespace nsys_explain::analysis
