#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "nsys_explain/model/collective.hpp"

namespace nsys_explain::analysis {

/// One standard uncertainty of the difference of two times of these trace ranks on the job clock; empty where their
/// clocks cannot be compared.
using PairUncertainty = std::function<std::optional<Nanoseconds>(std::int32_t trace_rank_a, std::int32_t trace_rank_b)>;

/// An arrival is resolved as the last one beyond this many standard uncertainties.
inline constexpr std::int64_t resolution_factor = 3;

/// Fills the derived fields of every instance and arrival of a block whose times are job time. With A = latest enter:
/// wait = min(A, exit) - enter, transfer = max(0, exit - A), lateness = enter - earliest enter.
/// Own lateness is the work before this enter beyond the median work of the members (algorithms.md 3.1), at most the
/// lateness; the rest was inherited. Of a rank's first arrival the work is not known: then neither is claimed.
/// Caused wait of the last arriver: how much the others' waiting shrinks if it had come without its own lateness (but
/// not before the second-last).
/// Of members without comparable clocks, and of infeasible instances, nothing is claimed: waits stay 0, and none is
/// resolved.
void compute_waits(MatchedBlock& block, const PairUncertainty& uncertainty);

}  // namespace nsys_explain::analysis
