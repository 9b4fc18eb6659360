#pragma once

#include <nlohmann/json.hpp>

#include "nsys_explain/model/activity_summary.hpp"

namespace nsys_explain::report {

/// The object `activity` of report.json: what the tables of all trace ranks add up to.
nlohmann::ordered_json activity_json(const ActivitySummary& activity);

}  // namespace nsys_explain::report
