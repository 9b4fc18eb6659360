#pragma once

#include <nlohmann/json.hpp>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::report {

/// The object `activity` of report.json: what the tables of all trace ranks add up to.
nlohmann::ordered_json activity_json(const JobReport& report);

}  // namespace nsys_explain::report
