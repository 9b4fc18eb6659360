#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nsys_explain/model/time.hpp"

/// How much longer the job takes than if all did alike, by the replays of `what_if`, after Lin et al. 2025,
/// "Understanding Stragglers in Large Model Training Using What-if Analysis". Each is the elapsed time over that of the
/// replay in which one thing is as usual, so 1 / (1 - what mending that saves). Ideal: all work and transfers as is
/// usual.
namespace nsys_explain {

/// The job as measured, against the job with one thing as usual.
struct SlowdownBy {
  std::string kind;  ///< "operation" (S_t) or "trace_rank" (S_w)
  std::string name;  ///< "compute", "transfer", or the trace rank's number
  double slowdown = 1;
};

struct Slowdown {
  Nanoseconds measured_ns = 0, without_launch_gaps_ns = 0, ideal_ns = 0;  ///< elapsed time, of the steps that count
  std::vector<SlowdownBy> by;                                             ///< by kind, worst first
  /// Of what the ideal job saves, the part that it saves if only the worst 3% of the trace ranks (at least one) do
  /// alike (M_W), or only the last pipeline stage (M_S); empty where there is none, or nothing to save.
  std::optional<double> worst_ranks_share, last_stage_share;

  /// S.
  double slowdown() const { return static_cast<double>(measured_ns) / static_cast<double>(ideal_ns); }
  double launch_slowdown() const {
    return static_cast<double>(measured_ns) / static_cast<double>(without_launch_gaps_ns);
  }
};

}  // namespace nsys_explain
