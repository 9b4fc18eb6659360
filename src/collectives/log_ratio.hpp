#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "model/median.hpp"

namespace nsys_explain::collectives {

/// Log of the likelihood ratio from which an explanation is clear: twenty thousand to one.
inline constexpr double clear_log_ratio = 10;
/// GPU times are multiples of 32 ns and exits agree to a few hundred: smaller differences say nothing more.
inline constexpr double least_difference_ns = 150;

/// How much better one explanation is than another: the log of a likelihood ratio.
struct LogRatio {
  double sum = 0, squares = 0;

  void add(double log_ratio) {
    sum += log_ratio;
    squares += std::min(1.0, log_ratio * log_ratio);
  }
  /// Noise alone adds up to its standard deviation; a few rows that say much are no noise.
  bool is_clear() const {
    constexpr double clear_deviations = 3;
    return sum >= std::max(clear_log_ratio, clear_deviations * std::sqrt(squares));
  }
  LogRatio against() const { return {-sum, squares}; }
};

/// For that `exits` are noise, against that they are as `enters` but for noise: differences, by operation of one kind.
/// The scale of the noise is what either leaves at least; its law has heavy tails.
inline void weigh(std::span<const double> exits, std::span<const double> enters, LogRatio& result) {
  std::vector<double> least;
  for (std::size_t i = 0; i < exits.size(); ++i)
    least.push_back(std::min(std::abs(exits[i]), std::abs(exits[i] - enters[i])));
  if (least.empty()) return;
  const double scale = std::max(least_difference_ns, mean_median(least));
  for (std::size_t i = 0; i < exits.size(); ++i)
    result.add(std::log((scale + std::abs(exits[i] - enters[i])) / (scale + std::abs(exits[i]))));
}

}  // namespace nsys_explain::collectives
