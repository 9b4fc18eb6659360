#pragma once

#include <string>

#include "nsys_explain/model/job_report.hpp"
#include "report/json_parts.hpp"

/// What the job ran on and with.
namespace nsys_explain::report {

/// The trace ranks of a value that all of them share are null: report.json must stay small on thousands of ranks.
Json run_facts_json(const JobReport& report);

}  // namespace nsys_explain::report
