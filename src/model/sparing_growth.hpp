#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace nsys_explain {

/// Room for `more` values behind those that are there, and for an eighth of all that come later: what grows to hundreds
/// of megabytes must not hold as much again in reserve.
template <class T>
void reserve_sparingly(std::vector<T>& values, std::size_t more) {
  if (values.capacity() - values.size() < more) values.reserve(values.size() + std::max(more, values.size() / 8));
}

}  // namespace nsys_explain
