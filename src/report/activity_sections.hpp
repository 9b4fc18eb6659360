#pragma once

#include <string>

#include "nsys_explain/model/job_report.hpp"

/// Sections of report.md, each a short table over all trace ranks that names the table of the store with the rest.
/// Empty where the traces hold nothing of it.
namespace nsys_explain::report {

std::string kernels_section(const JobReport& report);
/// How long each trace rank takes for equal kernels.
std::string speeds_section(const JobReport& report);
/// As `shown` declares it.
std::string shown_section(const JobReport& report, const ShownTable& shown);

}  // namespace nsys_explain::report
