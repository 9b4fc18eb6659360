#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// What links, ports and messages have to say: slow links, NVLinks that carry less on one GPU than on its peers,
/// unusable counters, unbalanced exchanges. Reads slow_links, nvlink, ranks, trace_ranks and tables of the report.
std::vector<Finding> find_link_problems(const JobReport& report);

}  // namespace nsys_explain::analysis
