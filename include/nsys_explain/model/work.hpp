#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "nsys_explain/model/time.hpp"

/// What a trace rank did before it entered a collective: the words of the cause analysis.
namespace nsys_explain {

/// One of its work segment's parts. Every nanosecond of a segment belongs to exactly one: to the first of compute,
/// communication, copies and graphs that runs on the GPU; where nothing runs, to what held up the next launch.
enum class WorkPart : std::uint8_t {
  compute,        ///< compute kernels run
  communication,  ///< other collectives run
  blocking_copy,  ///< copies the host waits for, and the idle GPU while the host is in such a call
  copy,           ///< other copies and sets run
  opaque_graph,   ///< a CUDA graph recorded as one interval runs
  // The GPU is idle, and the launch call of what runs next had not returned, because the host ...
  profiling,      ///< ... was held up by the profiler
  allocation,     ///< ... was allocating or freeing GPU or pinned memory
  module_load,    ///< ... was loading GPU code
  synchronising,  ///< ... was in a synchronising call
  file_access,    ///< ... was in a system call that reads, writes or maps
  named_range,    ///< ... was in an NVTX range that launches no kernels (data loading, a checkpoint, ...)
  system_wait,    ///< ... was waiting in a system call
  descheduled,    ///< ... did not have a core
  launching,      ///< ... was in a launch or another call into CUDA
  unseen,         ///< ... did something that was not recorded
  pending         ///< The GPU is idle though the launch had returned: dependencies, launch latency
};
inline constexpr std::size_t work_part_count = 16;

struct WorkPartMeaning {
  WorkPart part;
  std::string_view name;     ///< prefix of the columns of table straggler_cases
  std::string_view meaning;  ///< continues "more time in which ..."
};
/// In the order of the enumeration.
std::span<const WorkPartMeaning, work_part_count> work_parts();

/// The work segment of one arrival, [latest communication exit on its trace rank, enter), and how the arrival itself
/// lay to compute: compact, because every arrival has one. Durations saturate at 2^32 - 1 ns: what lasts 4.3 s needs no
/// comparison of nanoseconds.
struct WorkProfile {
  TraceTime enter;
  std::uint64_t kernels_hash = 0;  ///< of the names, grids and blocks of the kernels counted below, in any order
  std::array<std::uint32_t, work_part_count> parts_ns{};  ///< by WorkPart; all 0 for a rank's first arrival
  // In launch order, which is the program's and so the same on all ranks, between the launch of the previous
  // communication kernel and that of this one; on the GPU they may have run before the segment began.
  std::uint32_t kernels = 0;            ///< compute kernels
  std::uint32_t kernel_ns = 0;          ///< sum of their durations
  std::uint16_t synchronisations = 0;   ///< synchronising calls of the threads that launch
  std::uint16_t allocations = 0;        ///< their allocating and freeing calls
  std::uint32_t queued_ns = 0;          ///< behind another of its stream, though launched and the kernels above done
  std::uint32_t compute_beside_ns = 0;  ///< for how long compute ran from then, or the enter, to the exit
  std::uint32_t usual_kernel_ns = 0;    ///< kernel_ns, were each as long as those of its kind on average in the trace

  std::uint32_t part(WorkPart which) const { return parts_ns[static_cast<std::size_t>(which)]; }
};

}  // namespace nsys_explain
