#pragma once

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/launch_index.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::analysis {

/// What an analysis of one trace rank by itself looks at: everything its process recorded, and which of the process's
/// devices it is. Times are trace time. Lives only while the trace is in memory; results must not refer to it.
struct RankEvents {
  const Trace& trace;
  const ProcessTrace& process;
  const DeviceTrace& device;
  const LaunchIndex& launches;             ///< of process.api_calls
  std::vector<bool> communication_kinds;   ///< by kernel kind of the device
  std::span<const Arrival> arrivals = {};  ///< the device's parts in collectives, in enter order

  bool is_communication(const Kernel& kernel) const { return communication_kinds[kernel.kind]; }
};

}  // namespace nsys_explain::analysis
