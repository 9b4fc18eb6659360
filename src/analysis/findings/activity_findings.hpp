#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// Findings about kernels, launches, the host and memory, from `report.activity`. Each states the numbers it rests on
/// and the table that holds the rows.
///
/// | id | told where |
/// |---|---|
/// | slow-gpu | a trace rank is significantly slower at its peers' kernels (gpu_speed); one finding for all GPUs of a
/// | | node that are so alike |
/// | launch-starved | GPUs idle because the host launched late: 5% of the window or more |
/// | dependency-stalled | the same, waiting for another stream |
/// | gpu-idle | GPUs idle for reasons that these two do not tell: 5% of the window or more |
/// | launch-storm | trace ranks launch so many, so short kernels that launching limits |
/// | kernel-tail | what executions of one kernel at one grid take beyond its median is 2% of the window or more |
/// | pageable-copies, blocking-copies | asynchronous copies of pageable memory, or synchronous copies: 1% or more |
/// | exposed-copies | copies that no kernel hides and these two do not tell: 5% of the window or more |
/// | allocation-churn | the host spends 2% of its processes' windows or more in making and freeing memory |
/// | profiler-overhead | the profiler took 5% of the processes' windows or more: times are distorted |
///
/// Of what makes a trace rank late its own finding tells: slow GPUs are not told again, and of idle time, copies,
/// allocations and the profiler's time that such trace ranks have only what the others have, too, counts here.
void add_activity_findings(const JobReport& report, std::vector<Finding>& findings);

}  // namespace nsys_explain::analysis
