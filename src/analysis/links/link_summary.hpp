#pragma once

#include <vector>

#include "analysis/links/link_peaks.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// From the joined table `nvlink` (link_traffic.hpp, with the column trace_rank); `trace_ranks` tells the GPUs' names.
NvlinkReport summarise_nvlink(const std::vector<Table>& tables, const std::vector<TraceRankIdentity>& trace_ranks,
                              const std::vector<LinkPeak>& own_peaks);

/// From the joined table `network`. A port is told by host, source, device and number.
std::vector<NetworkUse> summarise_network(const std::vector<Table>& tables,
                                          const std::vector<TraceRankIdentity>& trace_ranks);

}  // namespace nsys_explain::analysis
