#pragma once

#include <string>

#include "nsys_explain/model/job_report.hpp"

/// Sections of report.md on a step, and a token where a step makes one. Empty where their tables are.
namespace nsys_explain::report {

/// Where a step's time goes, on average over the trace ranks and where it is most.
std::string step_budget_section(const JobReport& report);

/// How much longer collectives could take, and the bandwidth that asks for.
std::string slack_section(const JobReport& report);

}  // namespace nsys_explain::report
