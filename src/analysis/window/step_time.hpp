#pragma once

#include "analysis/window/steps.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// How long the job's steps take, from the first beginning of one to that of the next: their spread, and where they
/// change for good. Sets nothing else.
void describe_changes(const Steps& job, StepTime& time);

}  // namespace nsys_explain::analysis
