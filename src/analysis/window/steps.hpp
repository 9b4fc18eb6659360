#pragma once

#include <map>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/job_report.hpp"

/// The steps of a trace rank, and of the job.
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

/// From the ranges that cut the run into steps (choose_step_ranges); where none convince, from the order in which
/// kernels recur (recurrences).
/// `host`: where it is told how the host went through them; nullptr: not wanted.
Steps find_steps(const RankEvents& events, HostSteps* host = nullptr);

// Where the program begins anew, by the order of a GPU's kernels alone.

struct OrderedKernel {
  std::uint32_t kind = 0;     ///< equal for those of equal name, grid and block
  std::uint32_t idle_ns = 0;  ///< for how long the GPU had stood still before it
};

/// Positions at which the kernels of a step start; empty where the order does not tell.
///
///     a b b b c d  a b b b c d  a b b b c d     a, c, d and the first of each burst of b mark steps: they come evenly,
///                                               and what lies between two of a kind is always the same
///
/// A kind, or the first of each burst of it, marks a level where four fifths of the sequence, by length, lie between
/// two of it that are as far apart as usual, and hold what the typical stretch holds, but for a tenth; a gap of several
/// such stretches is one in which records were lost. Several levels can nest: micro-batches in steps that end with an
/// optimizer. The longest is the step, where it is there at least four times; three times may be a coincidence, so
/// nothing is told then. Only kinds with `marks` make levels: what a program logs now and then does not. Where
/// other kinds come again and again between them, but in no step, what goes on is longer, and nothing is told. Steps
/// begin where the GPU stands still longest, by the median.
std::vector<std::size_t> recurrences(std::span<const OrderedKernel> kernels, const std::vector<bool>& marks);

// Where a sequence says the same several times in a row.

/// symbols[first, first + count * period) is one motif `count` times.
struct TandemRepeat {
  std::size_t first = 0, period = 0, count = 0;

  std::size_t length() const { return period * count; }
  friend bool operator==(const TandemRepeat&, const TandemRepeat&) = default;
};

/// The longest one, of equal ones that of the shortest period, then the first; count 0 where there is none. A motif
/// comes three times at least, since twice may be by chance, and has two different symbols. Time: length squared.
TandemRepeat longest_tandem_repeat(std::span<const std::uint32_t> symbols);

/// Repeats that hold no repeats themselves, ascending: where one fills half of the motif or more, the motif is what
/// goes on around it, as micro-batches do around layers. Besides the longest, those before and after it that are a
/// quarter as long or more: a backward pass and its forward pass differ.
///
///     e abc abc abc f dcc' dcc' dcc' dcc' g        two repeats: abc 3 times at 1, dcc' 4 times at 11
std::vector<TandemRepeat> innermost_repeats(std::span<const std::uint32_t> symbols);

// Every trace rank counts its own steps; matched collectives tell which of them are one. All members of an instance
// are in the same step, whatever their clocks say, and whoever came late to it.
//
//     rank 0   | 0   a  b | 1   a  b | 2      the third of rank 0 is the second of rank 1, whose capture began later,
//     rank 1       b |    0   a  b | 1        as three of four instances tell

/// The steps of one trace rank, by its own count. Trivially copyable.
struct OwnSteps {
  std::int64_t rank = 0;  ///< index of the trace rank
  std::int64_t steps = 0;
  std::int64_t source = 0;  ///< StepSource
  std::int64_t numbered = 0, first_number = 0;
  Nanoseconds first_ns = 0, usual_ns = 0;  ///< when the first one began, how long the median one takes; job time
};
OwnSteps summarise_steps(std::size_t rank, const Steps& steps);

/// In so many instances `other` was this many of its steps ahead of `rank`. Trivially copyable.
struct StepTie {
  std::int32_t rank = 0, other = 0;
  std::int32_t ahead = 0;
  std::int32_t instances = 0;
};

/// Counts ties. Members that follow each other are enough: what relates is a chain.
class StepTies {
 public:
  /// A member's trace rank by index, and its step by its own count; -1: none. Ascending by rank.
  struct Member {
    std::int32_t rank = 0, step = -1;
  };
  void add(std::span<const Member> members);
  std::vector<StepTie> all() const;

 private:
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int32_t> instances_;
};

/// For each trace rank the job's step that its own first one is, of which the earliest is 0; not_counted where it has
/// none, or is of another job: nothing ties it to the most ranks, and it has no step among theirs. Related by the ties
/// that most instances support; where none leads from one rank to another, by the numbers that both programs gave their
/// steps, or else by time. `own` by index of the trace rank.
std::vector<std::int32_t> relate_steps(std::span<const OwnSteps> own, std::span<const StepTie> ties);

/// The commonest of these steps, of two alike the earlier; -1 where there are none. Reorders.
std::int32_t common_step(std::span<std::int32_t> steps);

/// How long the job's steps take, from the first beginning of one to that of the next: their spread, and where they
/// change for good. Sets nothing else.
void describe_changes(const Steps& job, StepTime& time);

}  // namespace nsys_explain::analysis
