#pragma once

#include <vector>

#include "analysis/tables/gpu_peaks.hpp"
#include "analysis/tables/kernel_evidence.hpp"
#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

/// Work and data movement of kernels against what the GPU can do.
namespace nsys_explain::analysis {

/// What the user gave for it; empty parts give tables without rows.
struct RooflineEvidence {
  PeakTable peaks;
  std::vector<NcuKernel> ncu;
  GemmLog gemms;
  std::vector<WeightRule> weights;
};

/// Shapes of launches that table kernel_occupancy keeps for each trace rank: those with the most time.
inline constexpr std::size_t most_shapes = 500;

/// The tables
/// - kernel_occupancy: theoretical occupancy of each kernel and launch configuration, with what limits it, and waves of
///   blocks; for GPUs whose limits are known.
/// - model_flops: FLOPs of logged matrix multiplications (2MNK) over the time of GEMM kernels and over the window, and
///   the peak of the GPU and type: MFU. `scaled` is 1 where log and trace disagree on the number of calls: then FLOPs
///   are the log's average per call times the trace's GEMM kernels.
/// - roofline: kernels that Nsight Compute profiled: FLOPs and DRAM bytes per launch over the durations in this trace.
/// - kernel_stalls: why their warps did not issue.
/// - weight_bandwidth: bytes of weights over kernel time (GEMV and other kernels that read each weight once).
/// Peaks that are not known are 0, and so are shares of them.
std::vector<Table> roofline_tables(const RankEvents& events, const RooflineEvidence& evidence);

}  // namespace nsys_explain::analysis
