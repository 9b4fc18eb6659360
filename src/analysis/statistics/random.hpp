#pragma once

#include <cstddef>
#include <cstdint>

#include "model/hash.hpp"

namespace nsys_explain::analysis {

/// SplitMix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  /// In [0, bound).
  std::size_t below(std::size_t bound) {
    state_ += golden_ratio;
    return static_cast<std::size_t>(mix_bits(state_) % bound);
  }

 private:
  std::uint64_t state_;
};

}  // namespace nsys_explain::analysis
