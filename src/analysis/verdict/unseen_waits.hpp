#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "analysis/verdict/job_delays.hpp"
#include "analysis/waits/levels.hpp"
#include "nsys_explain/model/job_report.hpp"

/// Waits between trace ranks whose clocks nothing relates. No collective tells who came last, but each trace tells by
/// itself how long it worked and how long it communicated: whoever waits communicates longer.
namespace nsys_explain::analysis {

/// What those who wait for a place would wait.
struct UnseenWaits {
  std::size_t ranks = 0;         ///< whose clocks are not related to any of the place's, and who communicate longer
  Nanoseconds behind_ns = 0;     ///< by how much the place is behind everybody else, in all
  double own_communication = 0;  ///< of the place, exposed, as a share of the window; its trace rank with most
  double communication = 0;      ///< likewise, of `ranks`; the lower median
  Nanoseconds cost_ns = 0;       ///< of each rank what it communicates longer, but no more than behind_ns
};

/// An estimate; nothing where all clocks are related, or where nobody communicates longer. `ranks` and `delays` are
/// parallel.
UnseenWaits estimate_unseen_waits(const Place& place, std::span<const RankSummary> ranks, const JobDelays& delays);

/// As a line of evidence.
std::string describe_waits(const UnseenWaits& waits);

}  // namespace nsys_explain::analysis
