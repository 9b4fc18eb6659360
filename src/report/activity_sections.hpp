#pragma once

#include <string>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::report {

/// The sections of report.md about kernels, host and GPU time, each a short table over all trace ranks that names the
/// table of the store with the rest. What the traces do not hold is listed at the end, with the option that records it.
std::string activity_sections(const JobReport& report);

}  // namespace nsys_explain::report
