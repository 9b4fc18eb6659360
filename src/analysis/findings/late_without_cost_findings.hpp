#pragma once

#include <string>
#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// Finding late-without-cost: JobReport::late_without_cost. The replay infers part of who waits for whom, so it may be
/// wrong about the cost; that somebody takes longer is measured.
void add_late_without_cost(const JobReport& report, std::vector<Finding>& findings);

/// "trace rank 2 takes 12.4% of a step longer than its peers"; empty where nobody does without a cost.
std::string describe_late_without_cost(const JobReport& report);

}  // namespace nsys_explain::analysis
