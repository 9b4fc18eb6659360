#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <vector>

namespace nsys_explain {

/// An array of numbers whose neighbours lie close together, as those of events that follow one another do: two bytes
/// each, and four more once some do not.
class NearbyNumbers {
 public:
  static constexpr std::uint32_t none = 0xFFFFFFFF;

  NearbyNumbers() = default;
  /// `count` times none.
  explicit NearbyNumbers(std::size_t count) : offsets_(count, no_offset), bases_(count / block + 1, none) {}

  std::size_t size() const { return offsets_.size(); }
  std::uint32_t operator[](std::size_t i) const {
    const std::uint16_t offset = offsets_[i];
    if (offset != no_offset) [[likely]]
      return bases_[i / block] + offset;
    return far_.empty() ? none : far_[i];
  }
  /// `number`: less than none.
  void set(std::size_t i, std::uint32_t number) {
    std::uint32_t& base = bases_[i / block];
    if (base == none) base = number < reach ? 0 : number - reach;
    if (number >= base && number - base < no_offset) {
      offsets_[i] = static_cast<std::uint16_t>(number - base);
    } else {
      if (far_.empty()) far_.assign(offsets_.size(), none);
      offsets_[i] = no_offset;
      far_[i] = number;
    }
  }

 private:
  static constexpr std::size_t block = 64;  ///< numbers that share a base
  static constexpr std::uint16_t no_offset = std::numeric_limits<std::uint16_t>::max();
  static constexpr std::uint32_t reach = 1024;  ///< how much smaller than the first that is set others may be

  std::pmr::vector<std::uint16_t> offsets_;  ///< from the base of their block
  std::pmr::vector<std::uint32_t> bases_;
  std::pmr::vector<std::uint32_t> far_;  ///< those that are too far from it; empty where none is
};

}  // namespace nsys_explain
