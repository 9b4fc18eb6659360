#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "nsys_explain/model/job_report.hpp"

/// Phases of the program, token latencies and attribution across trace ranks, from the joined tables phases, serving
/// and nvtx_coverage.
namespace nsys_explain::report {

/// `attribution`: shares of kernel time with a launching call and inside NVTX ranges, over all trace ranks, or null;
/// `phases` and `serving`: arrays.
nlohmann::ordered_json attribution_json(const JobReport& report);
nlohmann::ordered_json phases_json(const JobReport& report);
nlohmann::ordered_json serving_json(const JobReport& report);

/// Empty where the program has no recognised phases.
std::string phases_section(const JobReport& report);

}  // namespace nsys_explain::report
