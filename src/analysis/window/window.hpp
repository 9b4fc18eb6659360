#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/trace/nvtx_names.hpp"
#include "nsys_explain/model/trace.hpp"

/// A part of the run instead of all of it: the same part of every trace rank, before anything is analysed.
namespace nsys_explain::analysis {

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
  bool steady = false;            ///< nothing of this, but the steady steps (run_parts.hpp)

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
