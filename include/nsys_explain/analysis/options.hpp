#pragma once

#include <vector>

#include "nsys_explain/analysis/gpu_samples.hpp"
#include "nsys_explain/analysis/nvtx_names.hpp"
#include "nsys_explain/analysis/roofline.hpp"
#include "nsys_explain/analysis/window.hpp"

namespace nsys_explain::analysis {

/// What the user gave besides the traces; the same on every tool rank and for every trace rank.
struct AnalysisOptions {
  WindowRequest window;
  std::vector<PhaseRule> phase_rules;
  RooflineEvidence roofline;
  std::vector<GpuSample> gpu_samples;
};

}  // namespace nsys_explain::analysis
