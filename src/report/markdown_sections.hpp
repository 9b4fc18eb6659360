#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "nsys_explain/model/job_report.hpp"
#include "report/overview.hpp"

/// The parts of report.md below the verdict. Each is empty where it has nothing to say; otherwise it starts with its
/// heading and one sentence on how it was derived and what limits it.
namespace nsys_explain::report {

std::string findings_section(const JobReport& report);
std::string stragglers_section(const Overview& overview);
std::string budget_section(const JobReport& report);
std::string waits_section(const JobReport& report);
std::string operations_section(const JobReport& report);
std::string communicators_section(const JobReport& report);
std::string clock_and_matching_section(const JobReport& report);
std::string nvlink_section(const JobReport& report);
std::string host_processes_section(const JobReport& report);
std::string inputs_section(const JobReport& report);
std::string warnings_section(const JobReport& report);
std::string capture_section(const JobReport& report);
/// The sums of a table, as `shown` declares them.
std::string shown_section(const JobReport& report, const ShownTable& shown);

}  // namespace nsys_explain::report
