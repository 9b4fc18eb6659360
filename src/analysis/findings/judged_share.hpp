#pragma once

#include <optional>
#include <string>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// In how much of the analysed time the lateness of every trace rank could have been seen.
struct JudgedShare {
  double share = 1;   ///< 0 to 1
  std::string lacks;  ///< what it lacks most, as a clause; empty where it lacks nothing
};

/// From this share on a report may say that nobody is late.
inline constexpr double enough_is_judged = 0.9;

/// Of several trace ranks; empty for one, which nobody waits for.
///
///     share = (1 - opaque graphs / window) * arrivals that were matched / arrivals of all members
///             * instances that clocks can judge / instances
///
/// Without a matched collective it is 0. Example: 8 members, of which 2 were captured, half of their time in opaque
/// graphs: 0.5 * 2 / 8 = 0.125.
std::optional<JudgedShare> judge_share(const JobReport& report);

}  // namespace nsys_explain::analysis
