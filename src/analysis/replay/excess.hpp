#pragma once

#include <vector>

#include "analysis/replay/job_graph.hpp"
#include "analysis/replay/run_all.hpp"

/// What work takes beyond what is usual.
namespace nsys_explain::analysis {

/// Of a piece; may be negative.
struct PieceExcess {
  Nanoseconds gpu_ns = 0;    ///< of a collective: of its transfer
  Nanoseconds after_ns = 0;  ///< as in ActivityPiece
  Nanoseconds host_ns = 0;   ///< with that of all pieces since the host's latest wait
};

/// What work is compared with.
enum class Usual : std::uint8_t {
  median,  ///< of peers at the same program position, or where there are none, of the same position in other steps
  mean,    ///< kernels: of peers at the same program position, shared out evenly; 0 where there are none
  /// The same position in the next step of the trace rank, transfers included; 0 where there is none. So with what
  /// waits for what in a step, and how long its lags are, the length of the next is predicted, in this step's stead.
  next_step,
};

/// By piece.
std::vector<PieceExcess> find_excess(const JobGraph& graph, Usual usual, const RunAll& run_all = one_after_another);

}  // namespace nsys_explain::analysis
