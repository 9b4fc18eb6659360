#pragma once

#include <cstdint>
#include <vector>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/time.hpp"
#include "simulation/job_plan.hpp"
#include "simulation/kernel_catalogue.hpp"
#include "simulation/simulated_job.hpp"
#include "simulation/topology.hpp"

namespace nsys_explain::synth {

enum class OpKind : std::uint8_t {
  kernel,
  copy,           ///< cudaMemcpyAsync
  blocking_copy,  ///< cudaMemcpy
  set,
  collective,
  record_event,
  wait_event,
  stream_synchronize,
  device_synchronize,
  host_pause,
  file_read,
  module_load,
  deschedule,
  compute_on_host,
  mpi_wait,
  allocate,
  free,
  profiler_pause,
  push_range,
  pop_range,
  graph_begin,
  graph_end,
  make_communicators,
  destroy_communicators
};

/// One thing the host program does. Fields that a kind does not use keep their defaults.
struct Op {
  OpKind kind = OpKind::kernel;
  std::uint8_t thread = 0;
  std::uint8_t stream = 0;
  KernelId kernel = KernelId::cast;
  RangeLabel label = RangeLabel::step;
  Operation operation = Operation::unknown;
  bool grouped = false;  ///< collective: ncclSend / ncclRecv calls in a group
  bool sends = false;    ///< grouped between neighbours: this rank sends
  bool receives = false;
  bool pageable = false;
  bool to_device = true;
  std::int32_t channel = -1;
  std::int32_t root = -1;   ///< member index within the communicator
  std::uint32_t event = 0;  ///< slot, unique within the step
  std::uint32_t grid_x = 1;
  std::uint32_t key = 0;     ///< names the op within its step, whatever faults are planted around it
  std::int32_t number = -1;  ///< of a range
  std::int64_t bytes = 0;
  Nanoseconds duration_ns = 0;  ///< kernels and copies: before noise; pauses: exact
};

/// What `rank` does in one step, with the faults that are active in it.
std::vector<Op> step_program(const JobPlan& plan, const Topology& topology, std::int32_t rank, std::int32_t step);

}  // namespace nsys_explain::synth
