#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace nsys_explain::collectives {

/// Joins numbers into sets.
class Forest {
 public:
  explicit Forest(std::size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), 0); }
  /// False if they were joined before.
  bool join(std::int32_t a, std::int32_t b) {
    a = root(a), b = root(b);
    parent_[static_cast<std::size_t>(b)] = a;
    return a != b;
  }

  std::int32_t root(std::int32_t a) {
    while (parent_[static_cast<std::size_t>(a)] != a) {
      std::int32_t& parent = parent_[static_cast<std::size_t>(a)];
      parent = parent_[static_cast<std::size_t>(parent)];
      a = parent;
    }
    return a;
  }

 private:
  std::vector<std::int32_t> parent_;
};

}  // namespace nsys_explain::collectives
