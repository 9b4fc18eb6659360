#pragma once

#include <vector>

#include "nsys_explain/model/table.hpp"
#include "report/json_parts.hpp"

namespace nsys_explain::report {

/// Which members lack operations, and where members first part. Members that lack nothing inside of their captures are
/// left out: they are in the tables. Empty lists where the tables are not there.
Json matching_json(const std::vector<Table>& tables);

}  // namespace nsys_explain::report
