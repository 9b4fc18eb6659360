#pragma once

#include <string>

#include "nsys_explain/model/job_report.hpp"

/// The sections of report.md about kernels, host and idle time, each a short table over all trace ranks that names the
/// table of the store with the rest. Empty where the traces hold nothing of it.
namespace nsys_explain::report {

std::string idle_section(const JobReport& report);
std::string kernels_section(const JobReport& report);
/// How long each trace rank takes for equal kernels.
std::string speeds_section(const JobReport& report);
/// Where hosts stopped, the CUDA calls, and what CPU samples met.
std::string barriers_section(const JobReport& report);
std::string host_section(const JobReport& report);
std::string cpu_section(const JobReport& report);
std::string transfers_section(const JobReport& report);

}  // namespace nsys_explain::report
