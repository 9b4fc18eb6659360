#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/collective.hpp"

namespace nsys_explain::analysis {

enum class StepSource : std::uint8_t { none, nvtx, periodicity };

/// The iterations of one trace rank as its GPU saw them. Step i begins with the first kernel launched in it and lasts
/// to the start of step i + 1, the last one to end_ns.
struct Steps {
  StepSource source = StepSource::none;
  std::vector<Nanoseconds> start_ns;  ///< ascending; same clock as the events
  Nanoseconds end_ns = 0;
  bool numbered = false;          ///< the program counts its steps itself
  std::int64_t first_number = 0;  ///< of step 0 by that count

  /// -1: before the first step or after the last.
  std::int32_t index_of(Nanoseconds time_ns) const;
};

/// From NVTX ranges that enclose iterations ("step 12", "iteration", "ProfilerStep#3", or any numbered range that
/// covers most of the run); where there are none, from the period in which the sequence of collectives repeats.
Steps find_steps(const RankEvents& events, std::span<const Arrival> arrivals);

/// The step of the job, counted from its first, that each step of one trace rank is; -1: none of them. `job` are the
/// steps of the trace rank that stands for all. Both in job time: steps of equal number are one, or else those that
/// hold each other's middle.
std::vector<std::int32_t> relate_steps(const Steps& job, const Steps& own);

/// Positions at which a sequence of symbols starts anew: its period is the first lag at which at least nine tenths of
/// all symbols agree with their predecessor, and most kinds of symbol do (or else a long run of equal symbols within a
/// step would pass for the step). Empty where nothing repeats at least three times, or all symbols are
/// the same.
std::vector<std::size_t> repetitions(std::span<const std::uint64_t> symbols);

}  // namespace nsys_explain::analysis
