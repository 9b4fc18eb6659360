#pragma once

#include <vector>

#include "json_parts.hpp"
#include "nsys_explain/model/job_report.hpp"

/// Links and network in report.json.
namespace nsys_explain::report {

Json nvlink_json(const NvlinkReport& nvlink);
Json network_json(const std::vector<NetworkUse>& network);

}  // namespace nsys_explain::report
