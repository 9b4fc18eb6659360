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

/// Sentences about what people ask next: since when, whether it gets worse, whether it is the network. Each begins with
/// its question's word: "When: ...", "Over time: ...", "Network: ...". A question that the data do not answer has none.
std::vector<std::string> short_answers(const JobReport& report);

/// One thing that the traces do not hold, and the exact commands that record it next time. Plain text.
struct CaptureAdvice {
  std::string missing;  ///< what is not there, and what cannot be said without it
  std::vector<std::string> commands;
};

/// What to capture differently, most important first. Empty where nothing is missing.
std::vector<CaptureAdvice> capture_advice(const JobReport& report);

}  // namespace nsys_explain::report
