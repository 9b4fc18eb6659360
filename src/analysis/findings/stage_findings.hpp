#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// The pipeline stage that computes clearly longer than the others, which then wait for it, unless a straggler is the
/// reason: from the table stage_balance. Whether that is how the model was divided or work too much no peer can tell.
void add_longest_stage_finding(const JobReport& report, std::vector<Finding>& findings);

/// What stages of a pipeline wait for each other, beyond what other findings tell (`told_ns`): not who is late, but how
/// the program is scheduled.
void add_pipeline_bubble_finding(const JobReport& report, Nanoseconds told_ns, std::vector<Finding>& findings);

}  // namespace nsys_explain::analysis
