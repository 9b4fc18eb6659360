#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::analysis {

/// The times of one device that belong to each part of its budget: disjoint, each sorted and merged. Where kinds
/// overlap, time belongs to the first of: compute, communication, copy, opaque graph.
struct GpuTimes {
  Interval window;  ///< first start to last end of any GPU activity; empty for a device without
  std::vector<Interval> compute, exposed_communication, copy, opaque_graph;
  Nanoseconds communication_ns = 0;  ///< union of communication, exposed or not
};

GpuTimes split_gpu_time(const DeviceTrace& device, const std::vector<bool>& communication_kinds);

/// Where the time of one device went, in trace time, from the first start to the last end of its GPU activity. Unions
/// of intervals, so concurrent work counts once; where kinds overlap, time belongs to the first of: compute,
/// communication, copy, opaque graph. compute + exposed communication + copy + opaque graph + idle = window, exactly
/// (algorithms.md 7). All zero for a device without activity.
/// `communication_kinds`: by kernel kind of the device.
Budget compute_budget(const DeviceTrace& device, const std::vector<bool>& communication_kinds);

}  // namespace nsys_explain::analysis
