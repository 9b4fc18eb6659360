#pragma once

#include <string_view>

#include "nsys_explain/model/job_report.hpp"
#include "report/json_parts.hpp"

namespace nsys_explain::report {

/// The lists of an object of report.json, as the tables of the report declare them.
Json lists_of(const JobReport& report, std::string_view object);

/// The object `activity` of report.json: what the tables of all trace ranks add up to.
Json activity_json(const JobReport& report);

}  // namespace nsys_explain::report
