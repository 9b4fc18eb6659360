#pragma once

#include <string>
#include <vector>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain::report {

/// Who lacks what, and where members first part, as list items of report.md; empty where members agree.
std::string mismatch_text(const std::vector<Table>& tables);

}  // namespace nsys_explain::report
