#pragma once

#include <algorithm>
#include <cstddef>

namespace nsys_explain {

/// The middle value, of an even number the smaller of the two in the middle: always one that was observed. In linear
/// time; reorders `values`, which must not be empty.
template <class Values>
auto lower_median(Values&& values) {
  const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace nsys_explain
