#pragma once

#include <memory_resource>
#include <optional>

#include "nsys_explain/model/trace.hpp"

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

/// Finds the API call that launched a GPU activity, within one process: correlation ids repeat across processes.
class LaunchIndex {
 public:
  /// `calls` must outlive the index. Linear where ids are unique and without many holes, else O(n log n).
  explicit LaunchIndex(const ApiCalls& calls);

  static constexpr std::uint32_t no_call = NearbyNumbers::none;

  /// Number of the call with this correlation id; where the 32-bit counter wrapped and several match, the latest one
  /// that started no later than the activity. no_call: recorded without its call.
  std::uint32_t number_of(std::uint32_t correlation_id, Nanoseconds activity_start_ns) const {
    const std::size_t place = static_cast<std::size_t>(correlation_id) - first_id_;  // wraps where it is below
    if (!entries_.empty()) return search(correlation_id, activity_start_ns);
    return correlation_id != 0 && place < call_of_id_.size() ? call_of_id_[place] : no_call;
  }
  /// That call.
  std::optional<ApiCall> find(std::uint32_t correlation_id, Nanoseconds activity_start_ns) const {
    const std::uint32_t number = number_of(correlation_id, activity_start_ns);
    return number == no_call ? std::nullopt : std::optional((*calls_)[number]);
  }

 private:
  struct Entry {
    std::uint32_t correlation_id;
    std::uint32_t call;
  };
  bool fill_table();
  std::uint32_t search(std::uint32_t correlation_id, Nanoseconds activity_start_ns) const;

  const ApiCalls* calls_;
  std::uint32_t first_id_ = 0;
  NearbyNumbers call_of_id_;         ///< by id - first_id_; empty where ids are not unique and dense
  std::pmr::vector<Entry> entries_;  ///< then: sorted by (correlation id, call), and calls are sorted by start
};

}  // namespace nsys_explain
