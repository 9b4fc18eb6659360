#pragma once

#include <string>
#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::report {

/// One thing that the traces do not hold, and the exact commands that record it next time. Plain text.
struct CaptureAdvice {
  std::string missing;  ///< what is not there, and what cannot be said without it
  std::vector<std::string> commands;
};

/// What to capture differently, most important first. Empty where nothing is missing.
std::vector<CaptureAdvice> capture_advice(const JobReport& report);

}  // namespace nsys_explain::report
