#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::report {

/// A command that can be copied, and what it should show.
struct NextStep {
  std::string command, expect;
};

/// What to run next by the verdict, at most three: a check of what is named, the rows that show it, and the comparison
/// with a run without it. `directory`: of the results. Names from traces are in a command only where they need no
/// quoting.
std::vector<NextStep> next_steps(const JobReport& report, std::string_view directory);

}  // namespace nsys_explain::report
