#include "nsys_explain/model/launch_index.hpp"

#include <algorithm>

namespace nsys_explain {

LaunchIndex::LaunchIndex(std::span<const ApiCall> calls) : calls_(calls) {
  entries_.reserve(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].correlation_id != 0) entries_.push_back({calls[i].correlation_id, static_cast<std::uint32_t>(i)});
  }
  const auto by_id_then_time = [](const Entry& a, const Entry& b) {
    return a.correlation_id != b.correlation_id ? a.correlation_id < b.correlation_id : a.call < b.call;
  };
  // Ids grow with time on one thread, so the entries are nearly sorted already.
  if (!std::is_sorted(entries_.begin(), entries_.end(), by_id_then_time)) {
    std::sort(entries_.begin(), entries_.end(), by_id_then_time);
  }
}

const ApiCall* LaunchIndex::find(std::uint32_t correlation_id, Nanoseconds activity_start_ns) const {
  if (correlation_id == 0) return nullptr;
  const auto first = std::lower_bound(entries_.begin(), entries_.end(), correlation_id,
                                      [](const Entry& e, std::uint32_t id) { return e.correlation_id < id; });
  const ApiCall* found = nullptr;
  for (auto entry = first; entry != entries_.end() && entry->correlation_id == correlation_id; ++entry) {
    const ApiCall& call = calls_[entry->call];
    if (found != nullptr && call.start_ns > activity_start_ns) break;
    found = &call;
  }
  return found;
}

}  // namespace nsys_explain
