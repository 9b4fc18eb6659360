#pragma once

#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// `shared-core`: threads of several processes that launch work spend nine tenths of their time or more on one core
/// (table thread_cores, by the scheduler); one waits while another runs. `unbound-host`: such threads are on no core
/// for half of their time. Both are evidence alone: what they cost, the verdict tells.
void add_core_findings(const JobReport& report, std::vector<Finding>& findings);

}  // namespace nsys_explain::analysis
