#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "analysis/trace/rank_events.hpp"

namespace nsys_explain::analysis {

/// Of a step that nothing counts.
inline constexpr std::int32_t not_counted = std::numeric_limits<std::int32_t>::min();

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

/// The same steps as the host went through them: each begins with its range, else with the call that launched its first
/// kernel (without calls: with that kernel); trace time. Parallel to Steps::start_ns.
struct HostSteps {
  std::vector<Nanoseconds> begin_ns;
  Nanoseconds end_ns = 0;  ///< of the last range; the largest time where the last step was still open
};

/// From NVTX ranges that enclose iterations ("step 12", "iteration", "ProfilerStep#3", or any numbered range that
/// covers most of the run); where there are none, from the order in which kernels recur (recurrence.hpp).
/// `host`: where it is told how the host went through them; nullptr: not wanted.
Steps find_steps(const RankEvents& events, HostSteps* host = nullptr);

}  // namespace nsys_explain::analysis
