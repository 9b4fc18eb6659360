#pragma once

#include <span>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/collective.hpp"

namespace nsys_explain::analysis {

/// Sets Arrival::blocking: false where compute went on during most of the last 50 us before the exit, so that what
/// came next cannot have waited for it. Traces record no dependences by default; this is what shows of them.
void mark_blocking(const RankEvents& events, std::span<TraceArrival> arrivals);

}  // namespace nsys_explain::analysis
