#pragma once

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// What the user should know and do, from the numbers of the report: what is missing, then what saves most time when
/// mended, then the rest by severity and cost. Every finding states the numbers that it rests on. Reads everything of
/// the report but `findings` and the tables that sum it up.
std::vector<Finding> find_problems(const JobReport& report);

}  // namespace nsys_explain::analysis
