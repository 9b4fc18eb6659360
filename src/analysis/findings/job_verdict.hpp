#pragma once

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// The verdict on a report whose findings are known: what is missing, then the first high or medium finding, which
/// saves most time where that is known, else who is late at little cost, else that nobody is, or why that cannot be
/// told.
JobVerdict judge(const JobReport& report);

}  // namespace nsys_explain::analysis
