#pragma once

#include <optional>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// NCCL makes the connections of a communicator in its first collective: told with what that takes, which is no slow
/// transfer and no waiting. Where the first one takes three times the longest of eight and more later ones, and these
/// first ones together at least 1% of the GPU time (table first_collectives). Cost: beyond the longest later one, times
/// the members.
std::optional<Finding> find_connection_setup(const JobReport& report);

}  // namespace nsys_explain::analysis
