#pragma once

#include <cmath>
#include <cstdint>

#include "model/hash.hpp"

namespace nsys_explain::synth {

/// What a random number is for. Part of its key, so that uses never share numbers.
enum class Purpose : std::uint64_t {
  kernel_noise = 1,
  api_cost,
  host_gap,
  pause,
  rotation,
  transfer,
  end_jitter,
  rank_bias,
  session,
  node,
  identity,
  capture,
  shuffle,
  metrics,
  inspector,
  speed,
  end_tail,
  end_bias,
  end_spread,
  end_waits,
  sequence_length,
  strength,
  chance,
  family
};

/// Random numbers by key instead of by sequence: a draw depends only on the seed and on what it is for. Planting a
/// fault in one rank therefore leaves every other draw of the job as it was, and no order of execution matters.
/// (The generator is SplitMix64; the standard library's distributions differ between implementations.)
class Draw {
 public:
  Draw(std::uint64_t seed, Purpose purpose, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0) {
    state_ = seed;
    for (const std::uint64_t part : {static_cast<std::uint64_t>(purpose), a, b, c})
      state_ = mix_bits(state_ + part * golden_ratio);
  }

  std::uint64_t bits() { return mix_bits(state_ += golden_ratio); }

  /// In [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// In [low, high].
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }

  /// Standard normal to within 1 % (Irwin-Hall of 12 uniforms): only additions, so equal on every platform. Bounded
  /// by 6.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

  double exponential(double mean) { return -mean * std::log(1 - uniform()); }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace nsys_explain::synth
