#pragma once

#include <optional>
#include <string_view>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// True of a kernel whose name speaks of an exchange between ranks: all-reduce, all-gather, reduce-scatter, all-to-all,
/// dispatch or combine. Parts of attention kernels combine, too, and blocks of one kernel reduce among themselves:
/// names that tell so are none. `demangled`: with or without template and argument lists.
bool looks_like_communication(std::string_view demangled);

/// Of a job of several trace ranks: kernels that look like communication and are not known as such, where they take so
/// much time that what is said of compute and of waiting may be wrong.
std::optional<Finding> find_unknown_communication(const JobReport& report);

}  // namespace nsys_explain::analysis
