#pragma once

#include <span>
#include <string>
#include <vector>

#include "analysis/replay/job_graph.hpp"

namespace nsys_explain::analysis {

/// How long the stages of a pipeline compute.
struct StageTimes {
  std::string longest;
  /// By trace rank: by what its kernels would take longer if all stages computed as long as they do on average; empty
  /// where there are no two stages that compute, they compute alike, or the stage of some is not known.
  std::vector<double> gpu_factors;
};

/// `stage_of_rank`: name of each trace rank's stage.
///
///     stages compute 100, 100, 100 and 140 on average over their ranks: each 110, by the factors 1.1, 1.1, 1.1 and
///     0.79
StageTimes measure_stages(const JobGraph& graph, std::span<const std::string> stage_of_rank);

}  // namespace nsys_explain::analysis
