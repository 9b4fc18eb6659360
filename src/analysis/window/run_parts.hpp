#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "analysis/window/steps.hpp"
#include "nsys_explain/model/table.hpp"

/// Which part of a recording is the job at work. What lies around it is measured and named, and not priced.
///
///     | start-up | slow first steps | steady steps ................ | what follows |
namespace nsys_explain::analysis {

/// Ends of a window that reaches as far as there is anything.
inline constexpr Nanoseconds open_begin_ns = std::numeric_limits<Nanoseconds>::min();
inline constexpr Nanoseconds open_end_ns = std::numeric_limits<Nanoseconds>::max();

/// The steps of one process over its whole recording, in trace time.
struct RecordedSteps {
  StepSource source = StepSource::none;
  bool numbered = false;  ///< as in Steps
  std::int64_t first_number = 0;
  std::vector<Nanoseconds> begin_ns;  ///< as in HostSteps
  Nanoseconds end_ns = 0;
  /// How long each step took without exposed communication, as a multiple of what is usual in the last two thirds: who
  /// waits for another rank is not slow itself.
  std::vector<float> own_length;
  Nanoseconds usual_ns = 0;  ///< median length of a step, communication included
  /// How long before the first step, and after the last, kernels were launched.
  Nanoseconds lead_ns = 0, tail_ns = 0;
  /// Without steps, where activity goes on after a long pause: the end of what comes before that; the smallest time
  /// where nothing does.
  Nanoseconds cut_off_ns = 0;
  /// Steps by order only: when each communication kernel was launched, and a hash of their names in that order. Ranks
  /// of equal hash went through the same collectives, so what was launched after the k-th of them can be told on each.
  std::vector<Nanoseconds> communication_ns;
  std::uint64_t communication_hash = 0;
  /// Of each step when the last communication kernel launched in it ended; no_time: it has none. Members of a
  /// collective leave it together, so these tell which steps of two ranks are one, whatever their clocks say.
  std::vector<Nanoseconds> last_exit_ns;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(source, numbered, first_number, begin_ns, end_ns, own_length, usual_ns, lead_ns, tail_ns, cut_off_ns,
            communication_ns, communication_hash, last_exit_ns);
  }
};

/// What was launched for so long before the first step or after the last one may be a part of a step, whose range the
/// capture cut off: less than two, since hosts run ahead.
inline bool is_part_of_step(Nanoseconds duration_ns, Nanoseconds usual_ns) {
  return duration_ns < 2 * usual_ns;
}

/// Without steps `begin_ns` holds one time and `end_ns` another: between them lies what is left where activity at
/// either end is cut off by a pause of all GPU work that is longer than a tenth of the rest, and holds less than a
/// tenth of the GPU work. Empty without GPU work.
RecordedSteps record_steps(const RankEvents& events);

/// How many of the first steps compile, autotune or allocate instead of working as the others do. A step of r times the
/// usual length costs as much as r - 1 usual ones, and so is worth 1 - (r - 1). Of the first third those steps are left
/// out that together are worth least, if that is less than nothing.
///
///     r = 21, 1.2, 2.9, 1.0, 1.0, ...: worth -19, 0.8, -0.9, 1, 1; the first three are -19.1 and left out
///     r = 1.0, 1.1, 2.9, 1.0, 1.0, ...: worth 1, 0.9, -0.9, 1, 1; none is left out
///
/// `own_length` of a job is the least over its ranks: all of them are slow in slow first steps, while one late rank
/// lets the others wait.
std::size_t slow_first_steps(std::span<const float> own_length);

/// Where the steady steps lie, parts of steps at either end included; everything where nothing was recorded.
Interval steady_window(const RecordedSteps& steps, std::size_t slow_first);

/// The table run_parts of one trace rank. `window`: what is analysed, in trace time.
Table run_parts_table(const RankEvents& events, const RecordedSteps& steps, const Interval& window);

/// What is not analysed, as a sentence, from the joined table: medians over trace ranks. Parts shorter than a hundredth
/// of what is analysed are not worth it. Likewise the steps of the job that are no part of its mean step (ascending,
/// `steps_apart`). Empty where nothing is left out.
std::string describe_left_out(const std::vector<Table>& joined, const Steps& job,
                              std::span<const std::int32_t> steps_apart);

// Steps of a trace rank that hold more than a step: an evaluation, a checkpoint of all ranks.
//
//     | step | step | step, evaluation ......... | step |      the mean step is that of the others

/// Length of each step without exposed communication: who waits for another rank is not slow itself. `steps`: of these
/// events, in the same clock.
std::vector<Nanoseconds> own_lengths(const RankEvents& events, const Steps& steps);

/// The median of the last two thirds, at least 1: the first steps may compile.
Nanoseconds usual_length(std::span<const Nanoseconds> own_ns);

/// A step with an own length of more than twice the usual is worth less than none (slow_first_steps).
inline bool is_long(Nanoseconds own_ns, Nanoseconds usual_ns) {
  return own_ns > 2 * usual_ns;
}

/// By index, ascending: the long steps that hold more GPU activities than each step that is not long. A long step
/// without them is one that something delayed.
std::vector<std::int32_t> steps_with_more(const RankEvents& events, const Steps& steps);

}  // namespace nsys_explain::analysis
