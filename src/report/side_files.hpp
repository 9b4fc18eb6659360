#pragma once

#include <string>

#include "nsys_explain/model/job_report.hpp"
#include "report/json_parts.hpp"

/// What files beside the traces told: requests (--requests), NCCL's own log (--nccl-log). Empty and null where none was
/// given.
namespace nsys_explain::report {

std::string side_file_sections(const JobReport& report);
Json requests_json(const JobReport& report);
Json nccl_log_json(const JobReport& report);

}  // namespace nsys_explain::report
