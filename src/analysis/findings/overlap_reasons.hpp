#pragma once

#include <string>
#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// Why transfers run without compute, and what to do about it.
struct OverlapAdvice {
  std::vector<std::string> evidence;
  std::string recommendation;
};

/// From what was recorded, in this order: communication on the streams of compute (table streams), one hardware queue
/// for all streams (CUDA_DEVICE_MAX_CONNECTIONS=1, table run_facts), CUDA_LAUNCH_BLOCKING, and hosts that launch late
/// (half of the exposed communication is launch-paced) with the synchronising calls that they are in (table barriers).
/// Without any of these: compute waits for what is transferred. Advice to use streams of their own is given only to
/// those whose streams are one.
OverlapAdvice explain_exposed_communication(const JobReport& report);

}  // namespace nsys_explain::analysis
