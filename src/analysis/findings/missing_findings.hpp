#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// True where waiting can be told from transfers: most collectives have all their members, on clocks that can be
/// compared. Of others a member that nobody recorded may be the one that all wait for.
bool waiting_is_known(const JobReport& report);

/// Collective operations of a job of one trace rank of which nothing tells the group: its other members were not
/// recorded. 0 where there are several trace ranks.
std::int64_t collectives_alone(const JobReport& report);

/// What is missing of a job of which communicators have members without a trace: how many, which, and what cannot be
/// told without them; of processes whose GPU work nsys did not record; of trace ranks that nothing tells the group of.
/// `somebody_is_late`: a finding names somebody. Empty where nothing shows that any is missing.
std::optional<Finding> find_missing_ranks(const JobReport& report, bool somebody_is_late);

/// The compute kernel, by name, that takes most time over all trace ranks.
struct HeaviestKernel {
  std::string name;
  Nanoseconds total_ns = 0;
  std::int64_t count = 0;
  double share = 0;  ///< of the windows of all trace ranks
};

/// Empty where no compute kernel ran.
std::optional<HeaviestKernel> heaviest_kernel(const JobReport& report);

/// Where the capture holds hardly any GPU work: that it does, and all other findings become low ones. What takes long
/// in it is how the program starts, or the profiler.
void judge_short_capture(const JobReport& report, std::vector<Finding>& findings);

}  // namespace nsys_explain::analysis
