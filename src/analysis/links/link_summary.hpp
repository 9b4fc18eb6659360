#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// Peak of all NVLinks of a GPU together in one direction. Exports do not hold it, so what is derived from it is an
/// estimate.
struct LinkPeak {
  std::string gpu_name_part;  ///< found anywhere in the GPU's name, case matters
  double nvlink_gbs = 0;      ///< GB/s, GB = 1e9 bytes
};

/// By NVIDIA's data sheets (half of the bidirectional figures that they state), most specific name first.
const std::vector<LinkPeak>& known_link_peaks();

/// Lines "GBS NAME PART", e.g. "450 NVIDIA H100 80GB HBM3"; '#' starts a comment. Throws std::runtime_error for what is
/// neither.
std::vector<LinkPeak> parse_link_peaks(std::string_view text);

/// The first of `own`, then of the known ones, whose name part the GPU's name contains.
std::optional<double> nvlink_peak_gbs(const std::vector<LinkPeak>& own, std::string_view gpu_name);

/// Of the joined table `nvlink`: whether it has rows, and what they show, or how to get them.
NvlinkReport describe_nvlink(const std::vector<Table>& tables);

/// Fills estimated_during_gbs of the joined table `nvlink`, if it is there; `trace_ranks`, sorted, tell the GPUs'
/// names.
void estimate_nvlink_gbs(const std::vector<TraceRankIdentity>& trace_ranks, const std::vector<LinkPeak>& own_peaks,
                         std::vector<Table>& tables);

/// From the joined table `network`. A port is told by host, source, device and number.
Table network_metrics_table(const std::vector<Table>& tables, const std::vector<TraceRankIdentity>& trace_ranks);

}  // namespace nsys_explain::analysis
