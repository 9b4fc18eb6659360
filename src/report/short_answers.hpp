#pragma once

#include <string>
#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::report {

/// Sentences about what people ask next: since when, whether it gets worse, whether it is the network. Each begins with
/// its question's word: "When: ...", "Over time: ...", "Network: ...". A question that the data do not answer has none.
std::vector<std::string> short_answers(const JobReport& report);

}  // namespace nsys_explain::report
