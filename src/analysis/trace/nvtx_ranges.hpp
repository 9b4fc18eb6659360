#pragma once

#include <algorithm>
#include <memory_resource>
#include <utility>

#include "nsys_explain/model/regex.hpp"
#include "nsys_explain/model/trace.hpp"
#include "nsys_explain/model/utf8.hpp"

/// Names, phases and nesting of NVTX ranges.
namespace nsys_explain::analysis {

inline constexpr std::uint32_t no_parent = static_cast<std::uint32_t>(-1);

/// When a range ends; one that was never closed, at `open_end_ns`.
inline Nanoseconds end_of(const NvtxRange& range, Nanoseconds open_end_ns) {
  return range.end_ns == no_time ? std::max(open_end_ns, range.start_ns) : range.end_ns;
}

/// Push/pop ranges as a forest, nesting being per thread and domain: for each range the one directly around it, or
/// no_parent. Linear in the ranges, which are sorted by start.
using Parents = std::pmr::vector<std::uint32_t>;
Parents nest_ranges(const NvtxRanges& ranges, Nanoseconds open_end_ns);

/// How many ranges there are around a range.
inline std::int64_t level_of(std::uint32_t range, const Parents& parents) {
  std::int64_t level = 0;
  for (; parents[range] != no_parent; range = parents[range]) ++level;
  return level;
}

/// Calls `use(index)` for the ranges by start, longest first where several start together: outer before inner ones.
/// Ranges of one thread, or of one thread and domain, keep that order among themselves.
template <class Use>
void for_each_outer_first(const NvtxRanges& ranges, Nanoseconds open_end_ns, const Use& use) {
  std::vector<std::uint32_t> together;
  for (std::size_t begin = 0; begin < ranges.size();) {
    const Nanoseconds start_ns = ranges[begin].start_ns;
    together.assign(1, static_cast<std::uint32_t>(begin));
    std::size_t end = begin + 1;
    for (; end < ranges.size() && ranges[end].start_ns == start_ns; ++end) {
      together.push_back(static_cast<std::uint32_t>(end));
    }
    if (together.size() > 1) {
      std::stable_sort(together.begin(), together.end(), [&](std::uint32_t a, std::uint32_t b) {
        return end_of(ranges[a], open_end_ns) > end_of(ranges[b], open_end_ns);
      });
    }
    for (const std::uint32_t i : together) use(i);
    begin = end;
  }
}

// What NVTX ranges are called, and which of them are one kind of thing.

/// Ranges that `nsys stats` would sum in one row: one domain, one name, one style.
struct RangeGroup {
  StringIndex domain = 0;
  std::string_view name;  ///< into the trace's strings
  NvtxKind kind = NvtxKind::push_pop;
};

inline constexpr std::uint32_t no_group = static_cast<std::uint32_t>(-1);

/// The groups of a process in the order of their first range. Marks belong to none.
struct RangeGroups {
  std::vector<RangeGroup> groups;
  std::pmr::vector<std::uint32_t> group_of;  ///< parallel to process.nvtx_ranges
};

RangeGroups group_ranges(const Trace& trace, const ProcessTrace& process);

/// "PushPop" or "StartEnd", the words of `nsys stats`.
std::string_view range_style(NvtxKind kind);

/// The words of a label in small letters, without numbers: "ProfilerStep#12" is profiler, step.
std::vector<std::string> words_of(std::string_view label);

/// "aten::linear", "AddmmBackward0": a function of a library, or autograd's name of one.
bool is_function_name(std::string_view label);

/// Phases of training and serving that are recognised without being told.
namespace phase {
inline constexpr std::string_view step = "step", prefill = "prefill", decode = "decode", forward = "forward",
                                  backward = "backward", optimizer = "optimizer";
}

struct RecognisedPhase {
  std::string name;          ///< one of namespace phase, or the user's
  std::int64_t number = -1;  ///< "step 12": 12; -1: the label holds none
};

/// One line of a phase map: labels that the pattern matches anywhere belong to the phase. The first group of the
/// pattern, where it has one and it is a number, is the number of the step.
struct PhaseRule {
  std::string phase;
  Regex pattern;
};

/// Turns labels into phases: by the user's rules first, in their order, then by the words that frameworks use ("step
/// 12", "ProfilerStep#3", "train_step", "forward pass", "Optimizer.step#AdamW.step", "decode"). Names of operators
/// ("aten::...", "AddmmBackward0") are no phases.
class PhaseNames {
 public:
  explicit PhaseNames(std::vector<PhaseRule> rules) : rules_(std::move(rules)) {}
  std::optional<RecognisedPhase> recognise(std::string_view label) const;

 private:
  std::vector<PhaseRule> rules_;
};

/// Lines `PHASE PATTERN`; `#` starts a comment, empty lines do not count. Throws std::runtime_error: problem, why it
/// matters, what to do, with the line.
std::vector<PhaseRule> parse_phase_map(std::string_view text);

}  // namespace nsys_explain::analysis
