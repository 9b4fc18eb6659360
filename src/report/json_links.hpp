#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"
#include "report/json_parts.hpp"

/// Links and network in report.json.
namespace nsys_explain::report {

Json nvlink_json(const NvlinkReport& nvlink);
Json network_json(const std::vector<NetworkUse>& network);

}  // namespace nsys_explain::report
