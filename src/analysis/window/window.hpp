#pragma once

#include "analysis/trace/nvtx_ranges.hpp"
#include "analysis/window/steps.hpp"
#include "nsys_explain/model/table.hpp"

/// What is analysed of a trace: what the user asks for, or the steps that all processes recorded.
namespace nsys_explain::analysis {

// Which part of a recording is the job at work. What lies around it is measured and named, and not priced.
//
//     | start-up | slow first steps | steady steps ....... (not recorded) ....... | what follows |

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
  std::vector<float> length;  ///< likewise, communication included
  Nanoseconds usual_ns = 0;   ///< median length of a step on the host
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
    archive(source, numbered, first_number, begin_ns, end_ns, own_length, length, usual_ns, cut_off_ns,
            communication_ns, communication_hash, last_exit_ns);
  }
};

/// Without steps `begin_ns` holds one time and `end_ns` another: between them lies what is left where activity at
/// either end is cut off by a pause of all GPU work that is longer than a tenth of the rest, and holds less than a
/// tenth of the GPU work. Empty without GPU work.
RecordedSteps record_steps(const RankEvents& events);

/// How many of the first steps compile, autotune or allocate instead of working as the others do. A step of r times the
/// usual length costs as much as r - 1 usual ones, and so is worth 1 - (r - 1). Of n steps those first ones are left
/// out that together are worth least, if that is less than nothing, and if they are at most sqrt(n), and a third: then
/// their share of the steps, s / n <= 1 / sqrt(n), is no more than chance lets a mean of n steps vary. A slow part that
/// goes on beyond that is no start-up, but how the job ran then.
///
///     r = 21, 1.2, 2.9, 1.0, 1.0, ... (9): worth -19, 0.8, -0.9, 1, 1; the first three are -19.1 and left out
///     r = 1.0, 1.1, 2.9, 1.0, 1.0, ... (9): worth 1, 0.9, -0.9, 1, 1; none is left out
///     r = 3, 3, 3, 3, ... 1, 1, 1, ... (30 of each): the slow part is longer than 7; none is left out
///
/// `own_length` of a job is the least over its ranks: all of them are slow in slow first steps, while one late rank
/// lets the others wait.
std::size_t slow_first_steps(std::span<const float> own_length);

/// True where a step takes more than twice the usual time, waiting included: asked of the first steady step, in which
/// those wait who began, or were done with starting, before others.
bool is_waited_in(std::span<const float> length, std::size_t step);

/// Where the steady steps lie as one process tells them; everything where nothing was recorded.
Interval steady_window(const RecordedSteps& steps);

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

/// By index, ascending: the long steps that hold more GPU activities than each step that is not long (a long step
/// without them is one that something delayed), and those that meet a hole of the recording.
std::vector<std::int32_t> steps_with_more(const RankEvents& events, const Steps& steps);

// Which steps the whole job analyses: every process tells its own, and all must mean the same ones, before anything is
// matched. Numbers in ranges tell; else the ends of their last collectives, which differ alike in each step by the
// clocks alone; else equal counts, else UTC.

/// What all tool ranks hear of the steps of one process. Times are UTC.
struct ProcessSteps {
  StepSource source = StepSource::none;
  bool numbered = false;
  std::int64_t first_number = 0;
  std::vector<Nanoseconds> begin_ns;  ///< of the first 300 steps at most
  std::int64_t steps = 0;
  Nanoseconds end_ns = 0;  ///< as RecordedSteps::end_ns; likewise the others
  std::vector<float> own_length;
  std::vector<float> length;
  Nanoseconds usual_ns = 0;  ///< as in RecordedSteps
  std::uint64_t communication_hash = 0;
  std::vector<std::int64_t> communications;  ///< launched before each of these steps began, and before the end
  std::vector<Nanoseconds> last_exit_ns;     ///< of each of these steps, as in RecordedSteps

  template <class Archive>
  void serialize(Archive& archive) {
    archive(source, numbered, first_number, begin_ns, steps, end_ns, own_length, length, usual_ns, communication_hash,
            communications, last_exit_ns);
  }
};

/// `start_ns`: UTC of trace time 0.
ProcessSteps tell_steps(const RecordedSteps& recorded, Nanoseconds start_ns);

/// What is to be analysed of a process.
struct CommonWindow {
  Interval time;  ///< UTC; open ends are the limits of Nanoseconds
  /// Where it begins and ends is told by what others did: after so many communication kernels were launched, and before
  /// the next; -1: by `time`.
  std::int64_t after_communications = -1, until_communications = -1;
  /// The step of the process that nothing of is analysed any more, since another process did not record it; -1: none.
  std::int64_t until_step = -1;
};

/// One for each process, in their order. Slow first steps of a job are those in which all are slow; the step behind
/// them is left out, too, where some wait in it for others that began later. What lies before the first step and after
/// the last one is no part of them. A process without steps among others is analysed while these are. Steps that
/// some processes did not record are left out where their recordings look alike and are not. Does not depend on the
/// order of the processes.
std::vector<CommonWindow> common_windows(const std::vector<ProcessSteps>& processes);

/// The same in trace time.
Interval window_in_trace(const CommonWindow& window, const RecordedSteps& recorded, Nanoseconds start_ns);

// A part of the run instead of all of it: the same part of every trace rank, before anything is analysed.

/// RANGE[@DOMAIN][/INDEX] as nsys writes it: the range with this label. No domain: the default one; "*": any. `index`
/// counts such ranges of the process from 0 in order of time; without it the window is from the first start to the
/// last end of them.
struct RangeSelector {
  std::string label;
  std::string domain;
  std::optional<std::int64_t> index;
};

/// Steps first to last, both included, by the numbers in their labels; where labels have none, counted from 0.
struct StepSelector {
  std::optional<std::int64_t> first, last;
};

/// What the user asked for; everything at once must hold.
struct WindowRequest {
  std::optional<Interval>
      time;  ///< since the job epoch (earliest session start), by UTC; ends may be open (int64 limits)
  std::optional<RangeSelector> range;
  std::optional<StepSelector> steps;
  std::int64_t warmup_steps = 0;  ///< leave out so many steps at the beginning, and all before
  bool steady = false;            ///< nothing of this, but the steady steps (steady_window)

  bool asks_for_ranges() const { return range || steps || warmup_steps > 0; }
  bool any() const { return time || asks_for_ranges(); }
};

/// "5s/7s", "1s500ms/", "/250000" (nanoseconds where no unit is given). Units: h, m (or min), s, ms, us, ns, to be
/// combined. Throws std::runtime_error: problem, why it matters, what to do. The same holds for the other two.
Interval parse_filter_time(std::string_view text);
/// The same for another option, which problems name.
Interval parse_time_window(std::string_view option, std::string_view text);
RangeSelector parse_filter_nvtx(std::string_view text);
/// "A:B", "A:", ":B" or "A".
StepSelector parse_steps(std::string_view text);

/// Host time of the window of each process, by global process id, in trace time.
using ProcessWindows = std::map<std::uint64_t, Interval>;

/// Leaves in each process that has a window what was launched within it, as clip_to_window does; others stay whole.
void clip_to_launched(Trace& trace, const ProcessWindows& windows);

/// Leaves in the trace what belongs to the window. With ranges or steps that is the host activity that starts between
/// the start and the end of them, and the GPU work launched then, whenever it runs (without its launching call: where
/// it starts in that time itself). With time alone it is the GPU work and the host activity that starts then, and
/// the calls that launched this GPU work. NVTX ranges that overlap the calls stay as they are. Nothing is cut in two,
/// so durations stay true and budgets add up. What is known about communicators stays.
/// `epoch_in_trace_ns`: the job epoch in trace time. `steps_by_order`: the steps of a process without ranges for them,
/// by the order of its kernels; a process without either keeps all. A process without the ranges asked for keeps
/// nothing and gets no window. Throws std::runtime_error where no process with GPU activity has them.
using StepsByOrder = std::function<std::vector<Interval>(const ProcessTrace&)>;
ProcessWindows clip_to_window(Trace& trace, const WindowRequest& request, Nanoseconds epoch_in_trace_ns,
                              const PhaseNames& phases, const StepsByOrder& steps_by_order = {});

}  // namespace nsys_explain::analysis
