#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "simulation/random.hpp"

namespace nsys_explain::synth {

/// How strong something is from one time to the next. The analysis assumes none of these.
enum class Law : std::uint8_t {
  steady,      ///< always 1
  log_normal,  ///< sigma 0.6
  pareto,      ///< index 2.5, at most 12: now and then far longer
  bimodal,     ///< three quarters 0.4, one quarter 2.8
  wandering    ///< exp of a moving average over eight times: neighbours are alike
};

/// A number with mean 1 (wandering: median 1) at time `time` of `who`.
inline double strength(Law law, std::uint64_t seed, std::uint64_t who, std::uint64_t time, std::uint64_t part = 0) {
  Draw draw(seed, Purpose::strength, who, time, part);
  switch (law) {
    case Law::log_normal:
      return std::exp(0.6 * draw.normal() - 0.18);
    case Law::pareto:
      return std::min(12.0, 0.6 * std::pow(1 - draw.uniform(), -1 / 2.5));
    case Law::bimodal:
      return draw.uniform() < 0.75 ? 0.4 : 2.8;
    case Law::wandering: {
      constexpr std::uint64_t remembered = 8;
      double sum = 0;
      for (std::uint64_t back = 0; back < remembered; ++back)
        sum += Draw(seed, Purpose::strength, who, time + remembered - back, part).normal();
      return std::exp(0.5 * sum / std::sqrt(static_cast<double>(remembered)));
    }
    case Law::steady:
      break;
  }
  return 1;
}

}  // namespace nsys_explain::synth
