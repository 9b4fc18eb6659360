#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// One finding per slow link of the report, with all that it makes late.
std::vector<Finding> find_slow_links(const JobReport& report);

}  // namespace nsys_explain::analysis
