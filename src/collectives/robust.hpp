#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

/// Statistics that a few far values do not move.
namespace nsys_explain::collectives {

/// The middle value, of an even number the greater of the two in the middle; 0 of none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Median distance from the median.
inline double scatter(std::vector<double> values) {
  const double centre = median(values);
  for (double& value : values) value = std::abs(value - centre);
  return median(std::move(values));
}

/// Values without their median.
inline std::vector<double> centred(std::vector<double> values) {
  const double centre = median(values);
  for (double& value : values) value -= centre;
  return values;
}

/// Standard deviation of normal values around 0, a few of which may lie far off; at least `least`.
inline double deviation_of(std::vector<double> values, double least) {
  constexpr double deviations = 1.2816;  // of four in five
  for (double& value : values) value = std::abs(value);
  const auto fifth = values.begin() + static_cast<std::ptrdiff_t>(values.size() * 4 / 5);
  std::nth_element(values.begin(), fifth, values.end());
  return std::max(least, *fifth / deviations);
}

/// Minus twice the log likelihood of residuals, which are normal but for some far ones.
inline double misfit(const std::vector<double>& residuals, double deviation) {
  constexpr double far = 3;
  return std::accumulate(residuals.begin(), residuals.end(), 0.0, [&](double sum, double residual) {
    const double normed = std::min(far, std::abs(residual) / deviation);
    return sum + normed * normed;
  });
}

/// The middle of the window of a width that holds most of some values, the first of several; 0 for none.
template <typename T>
T densest(std::vector<T> values, T width) {
  std::sort(values.begin(), values.end());
  std::size_t most = 0;
  T centre = 0;
  for (std::size_t first = 0, end = 0; first < values.size(); ++first) {
    while (end < values.size() && values[end] - values[first] <= width) ++end;
    if (end - first <= most) continue;
    most = end - first;
    centre = values[(first + end - 1) / 2];
  }
  return centre;
}

}  // namespace nsys_explain::collectives
