#pragma once

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/time.hpp"
#include "nsys_explain/model/work.hpp"

/// What a late trace rank did differently from a peer before one collective, name by name.
namespace nsys_explain::analysis {

/// function: where CPU samples found the launching threads; samples have no order that two ranks would share.
enum class WorkEventKind : std::uint8_t { kernel, copy, call, range, host_stall, function };

std::string_view work_event_kind_name(WorkEventKind kind);

/// One thing the program did, in words that mean the same in every trace.
struct WorkEvent {
  WorkEventKind kind = WorkEventKind::kernel;
  std::string name;             ///< kernel, kind of copy, CUDA call, NVTX range, system call, function
  std::string shape;            ///< kernel: grid and block; copy: bytes; else empty
  Nanoseconds start_ns = 0;     ///< from the launch of the previous communication kernel; of GPU work: its launch
  Nanoseconds duration_ns = 0;  ///< on the GPU for kernels and copies, on the host for the rest
  std::string range = {};       ///< kernel: the innermost NVTX range that launched it; empty: none

  template <class Archive>
  void serialize(Archive& archive) {
    archive(kind, name, shape, start_ns, duration_ns, range);
  }
};

/// Events beyond this many before one collective are left out: alignment takes their product in time.
inline constexpr std::size_t most_work_events = 2048;

/// What was launched, and what the launching threads did, between the launch of the previous communication kernel and
/// of the one that starts at `enter`: kernels, copies, calls that block, NVTX ranges that began
/// and ended there (what they launch takes the host little: without the ranges inside, from 0.1 ms), host stalls,
/// functions by CPU samples. In the program's order, not in that of execution, so that traces of
/// two ranks can be compared.
std::vector<WorkEvent> work_events(const RankEvents& events, TraceTime enter);

/// One name, shape and range, on both sides.
struct WorkDifference {
  WorkEventKind kind = WorkEventKind::kernel;
  std::string name;
  std::string shape;
  std::string range;
  std::int64_t straggler_count = 0, peer_count = 0;
  Nanoseconds straggler_ns = 0, peer_ns = 0;

  Nanoseconds difference_ns() const { return straggler_ns - peer_ns; }
};

struct Divergence {
  std::vector<WorkDifference> differences;  ///< largest absolute difference first, then by kind, name, shape and range
  std::int64_t cases = 1;                   ///< that it is the sum of
  std::string first;  ///< the first point at which the two differ, in words; empty where they never do
};

/// Aligns the two lists (global alignment after Needleman and Wunsch: as many pairs of equal name as possible, and of
/// these as many of equal shape) and adds up what differs. A pair differs where one side takes more than 10% and 20
/// microseconds longer. Functions are added up only.
Divergence diverge(std::span<const WorkEvent> straggler, std::span<const WorkEvent> peer);

/// Adds another case to the sums; `first` stays that of the first case that has one.
void merge(Divergence& sum, const Divergence& other);

}  // namespace nsys_explain::analysis
