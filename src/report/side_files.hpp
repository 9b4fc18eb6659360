#pragma once

#include "report/json_parts.hpp"

/// What files beside the traces told: requests (--requests), NCCL's own log (--nccl-log). Empty and null where none was
/// given.
namespace nsys_explain::report {

std::string side_file_sections(const JobReport& report);
Json requests_json(const JobReport& report);
Json nccl_log_json(const JobReport& report);

// What NCCL Inspector's logs gave to the matching, from the table inspector_keys.

/// {records, keyed, contradicting, trace_ranks}; nothing where no log was used.
std::optional<Json> inspector_json(const std::vector<Table>& tables);

/// The same as a sentence; empty where no log was used.
std::string inspector_sentence(const std::vector<Table>& tables);

}  // namespace nsys_explain::report
