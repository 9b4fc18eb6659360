#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nsys_explain/model/trace.hpp"

namespace nsys_explain {

/// Finds the API call that launched a GPU activity, within one process: correlation ids repeat across processes.
class LaunchIndex {
 public:
  /// O(n log n). `calls` must outlive the index.
  explicit LaunchIndex(std::span<const ApiCall> calls);

  /// The call with this correlation id; where the 32-bit counter wrapped and several match, the latest one that
  /// started no later than the activity. nullptr: recorded without its call.
  const ApiCall* find(std::uint32_t correlation_id, Nanoseconds activity_start_ns) const;

 private:
  struct Entry {
    std::uint32_t correlation_id;
    std::uint32_t call;
  };
  std::span<const ApiCall> calls_;
  std::vector<Entry> entries_;  ///< sorted by (correlation id, call), and calls are sorted by start
};

}  // namespace nsys_explain
