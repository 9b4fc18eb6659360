#pragma once

#include <vector>

#include "analysis/links/link_peaks.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// Of the joined table `nvlink`: whether it has rows, and what they show, or how to get them.
NvlinkReport describe_nvlink(const std::vector<Table>& tables);

/// Fills estimated_during_gbs of the joined table `nvlink`, if it is there; `trace_ranks`, sorted, tell the GPUs'
/// names.
void estimate_nvlink_gbs(const std::vector<TraceRankIdentity>& trace_ranks, const std::vector<LinkPeak>& own_peaks,
                         std::vector<Table>& tables);

/// From the joined table `network`. A port is told by host, source, device and number.
Table network_metrics_table(const std::vector<Table>& tables, const std::vector<TraceRankIdentity>& trace_ranks);

}  // namespace nsys_explain::analysis
