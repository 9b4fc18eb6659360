#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace nsys_explain::analysis {

/// Index of the first value of ascending `values` that is greater than `wanted`, as std::upper_bound; quick where it
/// lies near `near`, as the answer to the question before does when questions nearly ascend.
template <class Value, class Wanted, class Less>
std::size_t upper_bound_near(const std::vector<Value>& values, std::size_t near, const Wanted& wanted,
                             const Less& less) {
  constexpr int few = 8;
  if (near <= values.size() && (near == 0 || !less(wanted, values[near - 1]))) {
    for (int i = 0; i < few; ++i, ++near) {
      if (near == values.size() || less(wanted, values[near])) return near;
    }
  }
  return static_cast<std::size_t>(std::upper_bound(values.begin(), values.end(), wanted, less) - values.begin());
}

}  // namespace nsys_explain::analysis
