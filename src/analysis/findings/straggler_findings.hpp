#pragma once

#include <string>
#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// One finding per straggler of the report: what it costs, why it is late, the evidence, and what to do about that
/// cause. None for those whom a slow link makes late: the finding of the link tells.
void add_straggler_findings(const JobReport& report, std::vector<Finding>& findings);

/// One finding per suspect: what would prove it, or what it would cost. Likewise.
void add_suspect_findings(const JobReport& report, std::vector<Finding>& findings);

/// What the two leave out of those whom this link of the report makes late: stragglers, then suspects.
std::vector<Finding> findings_of_late_by(const SlowLink& link, const JobReport& report);

/// One finding where delays cost much, but now one trace rank has them, now another: what that jitter costs, without a
/// culprit.
void add_rotating_delay_finding(const JobReport& report, std::vector<Finding>& findings);

/// One finding where a few collectives hold much of the waiting without anybody being late as a rule.
void add_long_wait_finding(const JobReport& report, std::vector<Finding>& findings);

/// Finding late-without-cost: JobReport::late_without_cost. The replay infers part of who waits for whom, so it may be
/// wrong about the cost; that somebody takes longer is measured.
void add_late_without_cost(const JobReport& report, std::vector<Finding>& findings);

/// "trace rank 2 takes 12.4% of a step longer than its peers"; empty where nobody does without a cost.
std::string describe_late_without_cost(const JobReport& report);

}  // namespace nsys_explain::analysis
