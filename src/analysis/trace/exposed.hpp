#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/exposed_time.hpp"

namespace nsys_explain::analysis {

/// A span of one collective in which no compute ran for one reason. Compute of less than a moment within it is not
/// counted, so that a row of short kernels beside a collective is one stretch.
struct ExposedStretch {
  Nanoseconds start_ns = 0, end_ns = 0;  ///< trace time
  Nanoseconds exposed_ns = 0;            ///< of the span
  std::int32_t arrival = -1;             ///< Arrival::index; -1: communication that is in none
  Operation operation = Operation::unknown;
  StandstillReason reason = StandstillReason::not_told;
  std::array<std::uint8_t, 2> reserved = {};  ///< no padding bytes travel uninitialised
};

/// Of a device, ascending; they add up to its exposed communication. `arrivals` are in trace time and in enter order.
///
///     compute     [.......]              [.......]      launched at l, it waits for the exit: launch-paced until l,
///     host                   l|launch|                  then blocking
///     collective      [.................]
std::vector<ExposedStretch> exposed_stretches(const RankEvents& events, std::span<const TraceArrival> arrivals);

}  // namespace nsys_explain::analysis
