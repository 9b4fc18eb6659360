#pragma once

#include "analysis/trace/rank_events.hpp"

/// Steps as a hypothesis: ranges propose how a run is cut into parts, and what the GPU runs in each part decides.
namespace nsys_explain::analysis {

// What the names of ranges propose.

/// What the name of a range tells. A stem is what ranges of one loop have in common:
///
///     "epoch 2 step 17"          epoch # step #            17, named
///     "step[DECODE bs=32]"       step[]                    named
///     "ProfilerStep#3"           ProfilerStep##            3, named, of a profiler
///     "execute_context_1(512)"   execute_context_#(#)      512, named: vLLM's
///     "aten::batch_norm"         aten::batch_norm          not named: a function's name
struct RangeName {
  std::string stem;                    ///< every number as '#', without other text in brackets
  std::optional<std::int64_t> number;  ///< behind the word for a step, else the last one
  bool names_step = false;             ///< one of its words is iter, or ends with step, iteration or batch
  bool is_of_profiler = false;         ///< torch.profiler's own count of steps
};
RangeName read_range_name(std::string_view text);

/// Ranges of one stem on one thread, one after the other; of ranges inside each other the outermost.
struct StepCandidate {
  std::string stem;
  bool names_step = false, is_of_profiler = false;
  bool counts_on = true;    ///< each number is larger than the one before
  bool is_numbered = true;  ///< each range has one
  std::int64_t first_number = 0, last_number = 0;
  std::vector<std::size_t> restarts;  ///< ranges whose number is no larger than the one before
  struct Jump {
    std::size_t range = 0;     ///< whose number does not follow the one before
    std::int64_t missing = 0;  ///< numbers between the two
  };
  std::vector<Jump> jumps;
  std::vector<Interval> ranges;              ///< a mark lasts until the next one
  std::optional<Nanoseconds> open_since_ns;  ///< the last one was open when the capture stopped; of marks the last
  std::optional<std::int64_t> open_number;

  /// What cannot be the steps is not worth its memory.
  bool may_be_steps() const { return names_step || counts_on; }
  /// After how many ranges the numbers begin anew, as a rule; 0: they do not, or once.
  std::size_t restarts_after() const;
};

/// By stem and thread, in a fixed order.
std::vector<StepCandidate> step_candidates(const RankEvents& events);

// What the GPU ran in each part.

/// How often each kernel name occurs in each of some parts that follow each other.
class PartContents {
 public:
  PartContents(std::size_t parts, std::size_t names) : names_(names), counts_(parts * names, 0), sizes_(parts, 0) {}
  void add(std::size_t part, std::size_t name) {
    ++counts_[part * names_ + name];
    ++sizes_[part];
  }
  std::size_t parts() const { return sizes_.size(); }
  std::size_t names() const { return names_; }
  std::span<const std::int32_t> of(std::size_t part) const { return std::span(counts_).subspan(part * names_, names_); }
  bool is_empty(std::size_t part) const { return sizes_[part] == 0; }

 private:
  std::size_t names_;
  std::vector<std::int32_t> counts_;
  std::vector<std::int64_t> sizes_;
};

/// Of each name the median over the parts that hold anything, of an even number the smaller of the two in the middle.
std::vector<std::int32_t> typical_content(const PartContents& contents);

/// True where these counts are the typical ones, but for a tenth of the kernels.
bool is_alike(std::span<const std::int32_t> counts, std::span<const std::int32_t> typical);

/// Something that most parts lack recurs in every so many of them: they are pieces of what goes on.
///
///     micro-batches  m m m mA m m m mA m m m mA     A, the reduction, in every 4th: period 4, first 3
struct Recurrence {
  std::size_t period = 0;  ///< 0: nothing does
  std::size_t first = 0;   ///< part that holds it

  friend bool operator==(const Recurrence&, const Recurrence&) = default;
};

/// The largest period at which names recur evenly that typical parts lack, if they are a tenth of a typical part; or
/// collectives, of which typical parts have none; or the numbers of the ranges restart after as many. What comes every
/// ten parts or less often is an evaluation or a checkpoint, by which few steps differ.
Recurrence recurrence_of_rare(const PartContents& contents, std::span<const std::int32_t> typical,
                              const std::vector<bool>& is_communication, std::size_t restarts_after);

/// The ranges that cut the run into steps; no ranges where no candidate convinces. Of the candidates that enclose half
/// of the kernels launched between the first and the last of their ranges the first of these:
///  1. those of the profiler; 2. those named as steps that count on: numbers need no witness, but most of the ranges
///     launch kernels; 3. others named as steps; 4. others that count on.
/// Of 3 and 4 most parts are alike; where something recurs in every few of them, as many together are a step. Three
/// parts are enough; one or two of 1 to 3 are steps where they enclose half of all kernels, and 4 are then none. Of
/// several the finest, then the one that encloses most.
struct StepRanges {
  std::vector<Interval> ranges;
  std::vector<bool> is_missing;  ///< parallel: a number of which nothing was recorded, in a hole of the recording
  bool numbered = false;
  std::int64_t first_number = 0;
};
StepRanges choose_step_ranges(const RankEvents& events);

}  // namespace nsys_explain::analysis
