#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// What the user should know and do, from the numbers of the report; most severe first, and of one severity the
/// costliest. Every finding states the numbers that it rests on. Reads everything of the report but `findings`; of its
/// tables those that the trace ranks made by themselves.
std::vector<Finding> find_problems(const JobReport& report);

}  // namespace nsys_explain::analysis
