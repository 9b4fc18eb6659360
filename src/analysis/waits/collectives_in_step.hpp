#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/waits/rank_timeline.hpp"
#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/table.hpp"

/// What the n-th all-reduce of a step costs, and of a token where a step makes one: layers of a model follow each other
/// in the same order in every step.
namespace nsys_explain::analysis {

/// The collectives of one operation at one position, over all steps with as many of them. Trivially copyable.
struct PositionInSteps {
  Operation operation = Operation::unknown;
  std::array<std::uint8_t, 3> reserved = {};  ///< no padding bytes travel uninitialised
  std::int32_t in_step = 0;                   ///< collectives of the operation in the step
  std::int32_t position = 0;                  ///< 0: the first of them
  std::int32_t reserved_for_alignment = 0;
  std::int64_t arrivals = 0;
  std::int64_t inconclusive = 0;  ///< arrivals whose parts are not told: not matched, or too short for the clocks
  Nanoseconds duration_ns = 0;    ///< summed over arrivals, from enter to exit
  Nanoseconds skew_ns = 0;        ///< of these, before the last member had entered
  Nanoseconds transfer_ns = 0;    ///< after that
  Nanoseconds most_skew_ns = 0;   ///< of one arrival
};

/// Of one trace rank, by (operation, in_step, position). Outcomes have been taken, steps counted.
std::vector<PositionInSteps> positions_in_steps(const RankTimeline& timeline);

/// Those of all trace ranks, equal positions made one; likewise sorted.
std::vector<PositionInSteps> merge_positions(std::vector<PositionInSteps> positions);

/// Table `collectives_in_step`. Of an operation only the steps with as many of its collectives as the most arrivals are
/// in: a prefill or a step with an evaluation lies elsewhere than it seems.
Table collectives_in_step_table(std::span<const PositionInSteps> merged);

}  // namespace nsys_explain::analysis
