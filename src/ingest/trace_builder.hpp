#pragma once

#include <algorithm>
#include <map>
#include <utility>

#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::ingest {

/// nsys packs hardware, VM, process and thread into one 64-bit id: 8 + 8 + 24 + 24 bits.
inline std::uint64_t process_of(std::int64_t global_tid) {
  return static_cast<std::uint64_t>(global_tid) & ~0xFFFFFFULL;
}
inline std::uint32_t thread_id_of(std::int64_t global_tid) {
  return static_cast<std::uint32_t>(global_tid & 0xFFFFFF);
}
inline std::int32_t process_id_of(std::uint64_t global_pid) {
  return static_cast<std::int32_t>(global_pid >> 24 & 0xFFFFFF);
}

/// Appends an event of a table of which `share_read()` has been read. Room is made for as many as the whole table may
/// bring: to double a vector of gigabytes would hold its events twice and more.
template <class Events, class ShareRead>
void append_event(Events& events, const typename Events::value_type& event, const ShareRead& share_read) {
  constexpr std::size_t few = 4096;
  if (events.size() == events.capacity() && events.size() >= few) {
    const auto size = static_cast<double>(events.size());
    const double share = share_read();
    if (share > 0) events.reserve(static_cast<std::size_t>(std::max(1.02 * size / share, 1.125 * size)));
  }
  events.push_back(event);
}

/// Collects events by process and device while tables are read in any order.
class TraceBuilder {
 public:
  /// The process with this id, created at first use. References stay valid.
  ProcessTrace& process(std::uint64_t global_pid);
  /// The process with this id; nullptr where no event has created it.
  ProcessTrace* find_process(std::uint64_t global_pid);
  /// The device of this process, created at first use. References stay valid.
  DeviceTrace& device(std::uint64_t global_pid, std::int32_t device_id);

  std::map<std::uint64_t, ProcessTrace>& processes() { return processes_; }
  const std::map<std::uint64_t, ProcessTrace>& processes() const { return processes_; }
  const std::map<std::pair<std::uint64_t, std::int32_t>, DeviceTrace>& devices() const { return devices_; }

  /// Sorted processes with their sorted devices and events; the builder is empty afterwards.
  std::vector<ProcessTrace> finish();

 private:
  std::map<std::uint64_t, ProcessTrace> processes_;
  std::map<std::pair<std::uint64_t, std::int32_t>, DeviceTrace> devices_;
  // Rows of one process and device come in long runs: remember the last one.
  ProcessTrace* last_process_ = nullptr;
  DeviceTrace* last_device_ = nullptr;
  std::uint64_t last_device_pid_ = 0;
};

}  // namespace nsys_explain::ingest
