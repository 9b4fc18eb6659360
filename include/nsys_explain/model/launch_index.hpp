#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nsys_explain/model/trace.hpp"

namespace nsys_explain {

/// Finds the API call that launched a GPU activity, within one process: correlation ids repeat across processes.
class LaunchIndex {
 public:
  /// `calls` must outlive the index. Linear where ids are unique and without many holes, else O(n log n).
  explicit LaunchIndex(std::span<const ApiCall> calls);

  /// The call with this correlation id; where the 32-bit counter wrapped and several match, the latest one that
  /// started no later than the activity. nullptr: recorded without its call.
  const ApiCall* find(std::uint32_t correlation_id, Nanoseconds activity_start_ns) const;

 private:
  struct Entry {
    std::uint32_t correlation_id;
    std::uint32_t call;
  };
  static constexpr std::uint32_t no_call = 0xFFFFFFFF;
  bool fill_table();

  std::span<const ApiCall> calls_;
  std::uint32_t first_id_ = 0;
  std::vector<std::uint32_t> call_of_id_;  ///< by id - first_id_; empty where ids are not unique and dense
  std::vector<Entry> entries_;             ///< then: sorted by (correlation id, call), and calls are sorted by start
};

}  // namespace nsys_explain
