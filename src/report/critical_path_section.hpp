#pragma once

#include <string>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::report {

/// Of report.md; empty where the job was not replayed.
std::string critical_path_section(const JobReport& report);

}  // namespace nsys_explain::report
