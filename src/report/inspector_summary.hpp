#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nsys_explain/model/table.hpp"
#include "report/json_parts.hpp"

/// What NCCL Inspector's logs gave to the matching, from the table inspector_keys.
namespace nsys_explain::report {

/// {records, keyed, contradicting, trace_ranks}; nothing where no log was used.
std::optional<Json> inspector_json(const std::vector<Table>& tables);

/// The same as a sentence; empty where no log was used.
std::string inspector_sentence(const std::vector<Table>& tables);

}  // namespace nsys_explain::report
