#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::analysis {

/// Where the time of one device went, in trace time, from the first start to the last end of its GPU activity. Unions
/// of intervals, so concurrent work counts once; where kinds overlap, time belongs to the first of: compute,
/// communication, copy, opaque graph. compute + exposed communication + copy + opaque graph + idle = window, exactly
/// (docs/method.md, Budgets). All zero for a device without activity.
/// `communication_kinds`: by kernel kind of the device.
Budget compute_budget(const DeviceTrace& device, const std::vector<bool>& communication_kinds);

}  // namespace nsys_explain::analysis
