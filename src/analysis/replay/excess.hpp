#pragma once

#include <vector>

#include "analysis/replay/job_graph.hpp"
#include "analysis/replay/run_all.hpp"

/// What work takes beyond what is usual: beyond peers at the same place of the program, or where there are none, beyond
/// the same place in other steps.
namespace nsys_explain::analysis {

/// Of a piece; may be negative.
struct PieceExcess {
  Nanoseconds gpu_ns = 0;    ///< of a collective: of its transfer
  Nanoseconds after_ns = 0;  ///< as in ActivityPiece
  Nanoseconds host_ns = 0;   ///< with that of all pieces since the host's latest wait
};

/// By piece.
std::vector<PieceExcess> find_excess(const JobGraph& graph, const RunAll& run_all = one_after_another);

/// By piece: beyond the same place in the next step of the trace rank, transfers included; 0 where there is none.
std::vector<PieceExcess> find_excess_over_next_step(const JobGraph& graph, const RunAll& run_all = one_after_another);

}  // namespace nsys_explain::analysis
