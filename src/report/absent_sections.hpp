#pragma once

#include <string>
#include <string_view>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::report {

/// The section that lists what `markdown` has no section for, and why; empty where nothing is missing. `markdown`: all
/// other sections of the report.
std::string absent_sections(const JobReport& report, std::string_view markdown);

}  // namespace nsys_explain::report
