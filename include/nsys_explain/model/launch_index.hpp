#pragma once

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <vector>

#include "nsys_explain/model/nearby_numbers.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain {

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
