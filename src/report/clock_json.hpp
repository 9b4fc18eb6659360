#pragma once

#include "nsys_explain/model/job_report.hpp"
#include "report/json_parts.hpp"

namespace nsys_explain::report {

/// The object `clock` of report.json.
Json clock_json(const ClockReport& clock);

}  // namespace nsys_explain::report
