#pragma once

#include <vector>

#include "analysis/tables/gpu_samples.hpp"
#include "analysis/tables/roofline.hpp"
#include "analysis/trace/nvtx_names.hpp"
#include "analysis/window/window.hpp"

namespace nsys_explain::analysis {

/// What the user gave besides the traces; the same on every tool rank and for every trace rank.
struct AnalysisOptions {
  WindowRequest window;
  std::vector<PhaseRule> phase_rules;
  RooflineEvidence roofline;
  std::vector<GpuSample> gpu_samples;
  bool gpu_trace = false;  ///< also the table with a row per activity
};

}  // namespace nsys_explain::analysis
