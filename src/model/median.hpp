#pragma once

#include <algorithm>
#include <cstddef>

/// Medians in linear time, beside lower_median: they differ in what an even number of values has. They reorder
/// `values`, which must not be empty.
namespace nsys_explain {

/// The larger of the two in the middle: always one that was observed.
template <class Values>
auto upper_median(Values&& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Half way between the two in the middle.
template <class Values>
double mean_median(Values&& values) {
  const double upper = upper_median(values);
  if (values.size() % 2 == 1) return upper;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  return (*std::max_element(values.begin(), middle) + upper) / 2;
}

}  // namespace nsys_explain
