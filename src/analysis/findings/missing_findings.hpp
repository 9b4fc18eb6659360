#pragma once

#include <cstdint>
#include <optional>

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

}  // namespace nsys_explain::analysis
