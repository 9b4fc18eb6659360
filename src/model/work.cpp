#include "nsys_explain/model/work.hpp"

namespace nsys_explain {

std::span<const WorkPartMeaning, work_part_count> work_parts() {
  static constexpr std::array<WorkPartMeaning, work_part_count> parts{{
      {WorkPart::compute, "compute", "compute kernels ran"},
      {WorkPart::communication, "communication", "other collectives ran"},
      {WorkPart::blocking_copy, "blocking_copy", "the host waited for a copy"},
      {WorkPart::copy, "copy", "copies and sets that nobody waited for ran"},
      {WorkPart::opaque_graph, "opaque_graph", "CUDA graphs whose kernels were not recorded ran"},
      {WorkPart::profiling, "profiling", "the GPU was idle and the profiler stalled the host"},
      {WorkPart::allocation, "allocation", "the GPU was idle and the host was allocating or freeing memory"},
      {WorkPart::module_load, "module_load", "the GPU was idle and the host was loading GPU code"},
      {WorkPart::synchronising, "synchronising", "the GPU was idle and the host was in a synchronising call"},
      {WorkPart::file_access, "file_access", "the GPU was idle and the host was reading or writing files"},
      {WorkPart::named_range, "named_range",
       "the GPU was idle and the host was in an NVTX range that launches no kernels"},
      {WorkPart::system_wait, "system_wait", "the GPU was idle and the host waited in a system call"},
      {WorkPart::descheduled, "descheduled", "the GPU was idle and the launching thread had no CPU core"},
      {WorkPart::launching, "launching", "the GPU was idle and the host was in calls that launch work"},
      {WorkPart::unseen, "unseen", "the GPU was idle and the host did something that no call or range shows"},
      {WorkPart::pending, "pending", "the GPU was idle with its next work already launched"},
  }};
  return parts;
}

}  // namespace nsys_explain
