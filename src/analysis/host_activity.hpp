#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "nsys_explain/analysis/rank_events.hpp"
#include "nsys_explain/analysis/work_profile.hpp"

namespace nsys_explain::analysis {

/// What the time in a CUDA call is, by the call's name: synchronising, allocation, module_load, blocking_copy (also
/// where a copy "Async" by name turns out to block, which only the timeline can tell), or launching.
WorkPart part_of_call(std::string_view name);

/// What the host threads of one device did while the GPU was idle.
class HostActivity {
 public:
  explicit HostActivity(const RankEvents& events);

  /// Appends pieces for an idle span whose next activity `launch` launched. Where several things happened at a time,
  /// the launching thread's come first, in this order: profiler, allocation, module loading, synchronising, blocking
  /// copy, file access, named range; then what the profiler did on any thread, and calls of the first five kinds of
  /// the other threads that launch on the device (one thread often waits for another); then waiting in a system call,
  /// having no core, and launching.
  void explain(const Interval& idle, const ApiCall& launch, std::vector<WorkPiece>& pieces) const;

  /// Calls of the launching threads that began in [start, end).
  std::int64_t synchronisations(Nanoseconds start_ns, Nanoseconds end_ns) const;
  std::int64_t allocations(Nanoseconds start_ns, Nanoseconds end_ns) const;

 private:
  struct Doing {
    Nanoseconds start_ns, end_ns;
    WorkPart part;
    Nanoseconds latest_end_ns;  ///< of this one and all before it
  };
  struct Thread {
    bool launches = false;  ///< work of this device
    std::vector<Nanoseconds> launch_starts;
    std::vector<Doing> doings;  ///< sorted by start
  };

  void add(std::uint32_t thread_id, Nanoseconds start_ns, Nanoseconds end_ns, WorkPart part);
  void add_launching_threads(const RankEvents& events);
  void add_calls(const RankEvents& events);
  void add_ranges(const RankEvents& events);
  void add_hold_ups(const RankEvents& events);

  std::map<std::uint32_t, Thread> threads_;
  std::vector<Nanoseconds> synchronisations_, allocations_;  ///< starts, ascending
};

/// work_timeline() where the host's activity is known already.
std::vector<WorkPiece> work_timeline(const RankEvents& events, const HostActivity& host);

}  // namespace nsys_explain::analysis
