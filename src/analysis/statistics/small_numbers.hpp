#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <vector>

#include "nsys_explain/model/release.hpp"

namespace nsys_explain::analysis {

/// Numbers of things that are thousands as a rule and may be more: two bytes each, four from the first on that does not
/// fit.
class SmallNumbers {
 public:
  void reserve(std::size_t count) { narrow_.reserve(count); }
  void push_back(std::uint32_t number) {
    if (wide_.empty()) {
      if (number <= std::numeric_limits<std::uint16_t>::max())
        return narrow_.push_back(static_cast<std::uint16_t>(number));
      wide_.reserve(narrow_.capacity());
      wide_.assign(narrow_.begin(), narrow_.end());
      release(narrow_);
    }
    wide_.push_back(number);
  }
  std::size_t size() const { return narrow_.size() + wide_.size(); }
  std::uint32_t operator[](std::size_t i) const { return wide_.empty() ? narrow_[i] : wide_[i]; }

 private:
  std::pmr::vector<std::uint16_t> narrow_;  ///< empty once `wide_` is not
  std::pmr::vector<std::uint32_t> wide_;
};

}  // namespace nsys_explain::analysis
