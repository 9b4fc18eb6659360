#pragma once

#include <memory_resource>

#include "analysis/trace/work_profile.hpp"
#include "nsys_explain/model/run_map.hpp"

namespace nsys_explain::analysis {

/// What the time in a CUDA call is, by the call's name: synchronising, allocation, module_load, blocking_copy (also
/// where a copy "Async" by name turns out to block, which only the timeline can tell), or launching.
WorkPart part_of_call(std::string_view name);

/// The same of the calls of one trace: it makes few, and each of them millions of times.
class CallParts {
 public:
  explicit CallParts(const Trace& trace) : strings_(trace.strings), by_name_(trace.strings.size()) {}

  WorkPart of(const ApiCall& call) {
    std::optional<WorkPart>& part = by_name_[call.name];
    if (!part) part = part_of_call(strings_[call.name]);
    return *part;
  }

 private:
  const std::vector<std::string>& strings_;
  std::vector<std::optional<WorkPart>> by_name_;
};

/// What the host threads of one device did while the GPU was idle.
class HostActivity {
 public:
  /// `events` must outlive it.
  explicit HostActivity(const RankEvents& events);

  /// Begin or end of something the host did.
  struct Change {
    Nanoseconds time_ns;
    int level;
    WorkPart part;
    int count;  ///< +1 or -1
  };
  /// What explain() finds, with room to work in: devices have millions of idle spans.
  struct IdlePieces {
    std::vector<WorkPiece> pieces;
    std::vector<Change> changes;
  };

  /// Leaves the pieces of an idle span whose next activity `launch` launched. Where several things happened at a time,
  /// the launching thread's come first, in this order: profiler, allocation, module loading, synchronising, blocking
  /// copy, file access, named range; then what the profiler did on any thread, and calls of the first five kinds of
  /// the other threads that launch on the device (one thread often waits for another); then waiting in a system call,
  /// having no core, and launching.
  void explain(const Interval& idle, const ApiCall& launch, IdlePieces& found) const;

  /// Calls of the launching threads that began in [start, end).
  std::int64_t synchronisations(Nanoseconds start_ns, Nanoseconds end_ns) const;
  std::int64_t allocations(Nanoseconds start_ns, Nanoseconds end_ns) const;

 private:
  struct Doing {
    Nanoseconds start_ns, end_ns;
    WorkPart part;
    Nanoseconds latest_end_ns;  ///< of this one and all before it
  };
  /// Some calls of a thread in a row that do no more than launch.
  struct LaunchingCalls {
    std::uint32_t first_call;
    std::uint32_t first_step;   ///< where its calls are among Thread::steps
    Nanoseconds latest_end_ns;  ///< of these and all before them
  };
  /// Calls that only launch are by far the most: two bytes each say which they are.
  struct Thread {
    bool launches = false;                  ///< work of this device
    std::pmr::vector<std::uint16_t> steps;  ///< a launching call each: its number less that of the one before; 0: the
                                            ///< first of a block
    std::vector<LaunchingCalls> blocks;
    std::vector<Doing> doings;  ///< all else, sorted by start

    /// Calls come in ascending order.
    void add_launching(std::uint32_t call, Nanoseconds end_ns);
    std::uint32_t latest_call = 0;
  };

  void add(std::uint32_t thread_id, Nanoseconds start_ns, Nanoseconds end_ns, WorkPart part);
  void find_threads(const std::vector<bool>& launched_work);
  void add_calls(const RankEvents& events);
  void add_ranges(const RankEvents& events, const std::vector<bool>& launched_kernels);
  void add_host_stalls(const RankEvents& events);
  /// Calls `use(start, end, part)` for what the thread did in the span, launches last.
  template <class Use>
  void for_each_doing(const Thread& thread, const Interval& span, const Use& use) const;

  const ApiCalls& api_calls_;
  RunMap<std::uint32_t, Thread> threads_;
  std::vector<Nanoseconds> synchronisations_, allocations_;  ///< starts, ascending
};

/// The pieces of work_timeline() one by one, for a device has millions; `host` is that of `events`.
using UsePiece = std::function<void(const WorkPiece&)>;
void for_each_work_piece(const RankEvents& events, const HostActivity& host, const UsePiece& use);

/// Why a host thread did not run its program.
enum class HostStallKind : std::uint8_t {
  profiler,     ///< the profiler flushed buffers, patched code, ...
  module_load,  ///< CUDA loaded or compiled code
  file,         ///< a call into the operating system that reads, writes or maps
  wait,         ///< a call into the operating system that waits for a thread, a descriptor or time
  descheduled   ///< the operating system ran something else on its core
};

/// One span of time that a host thread lost.
struct HostStall {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  std::uint32_t thread_id = 0;
  StringIndex name = 0;  ///< e.g. the call; empty for descheduled
  HostStallKind kind = HostStallKind::wait;
};

/// Shorter ones are left out: they come in millions, and do not tell why a rank is late.
inline constexpr Nanoseconds shortest_host_stall_ns = 20'000;

/// Of every thread of the process, sorted by start.
std::vector<HostStall> host_stalls(const Trace& trace, const ProcessTrace& process);

/// The time that one sample stands for: the median from one of a thread to its next; 0: no thread has two. A thread is
/// sampled only while it runs, so longer gaps are time off a core.
Nanoseconds sampling_period_ns(std::span<const CpuSample> samples);

/// "read_csv (libarrow.so)", "libcuda.so.1"; "not known" where the call chain tells nothing.
std::string function_name(const Trace& trace, const CpuSample& sample);

}  // namespace nsys_explain::analysis
