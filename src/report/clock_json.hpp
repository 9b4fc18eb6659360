#pragma once

#include "json_parts.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::report {

/// The object `clock` of report.json.
Json clock_json(const ClockReport& clock);

}  // namespace nsys_explain::report
