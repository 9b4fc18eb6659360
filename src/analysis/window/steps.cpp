#include "analysis/window/steps.hpp"

#include <cctype>

#include "analysis/statistics/statistics.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/intervals.hpp"
#include "nsys_explain/model/run_map.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::size_t fewest_steps = 3;

/// Name of a range without the number at its end.
struct NumberedName {
  std::string_view stem;
  std::optional<std::int64_t> number;
};

NumberedName split_number(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0 && (text[end - 1] == ']' || text[end - 1] == ')' || text[end - 1] == ' ')) --end;
  std::size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0) --begin;
  const auto number = integer_of(text.substr(begin, end - begin));
  return {number ? text.substr(0, begin) : text, number};
}

bool names_a_step(std::string_view stem) {
  std::string lower(stem);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* word : {"step", "iter", "batch"})
    if (lower.find(word) != std::string::npos) return true;
  return false;
}

/// Ranges of one name on one thread. Of millions of them only those are kept that may still be the iterations.
struct CandidateRange {
  std::string_view stem;
  bool named = false;         ///< by a word for a step
  std::int64_t launches = 0;  ///< kernels of the device launched by the thread
  std::vector<Interval> ranges;
  std::optional<std::int64_t> first_number;
  bool numbered = true, overlapping = false;
  Nanoseconds covered_ns = 0;

  bool may_be_steps() const { return (named || numbered) && !overlapping; }
  void add(const Interval& range, std::optional<std::int64_t> number) {
    if (!may_be_steps()) return;
    constexpr std::int64_t largest_number = 1'000'000'000;  // no program counts so far, and differences fit 32 bits
    if (number && (*number > largest_number || *number < -largest_number)) number.reset();
    if (ranges.empty()) first_number = number;
    numbered = numbered && number && *number == *first_number + static_cast<std::int64_t>(ranges.size());
    overlapping = !ranges.empty() && range.start_ns < ranges.back().end_ns;
    covered_ns += range.end_ns - range.start_ns;
    ranges.push_back(range);
    if (!may_be_steps()) ranges = {};
  }
};

/// Calls `use(kernel, launching call)` for the kernels whose call is in the trace.
template <class Use>
void for_each_launched_kernel(const RankEvents& events, const Use& use) {
  for (const Kernel& kernel : events.device.kernels) {
    const auto launch = events.launches.find(kernel.correlation_id, kernel.start_ns);
    if (launch) use(kernel, *launch);
  }
}

/// The ranges that enclose the iterations; nullptr where there are none. `span_ns` is the time the launches cover.
const CandidateRange* choose(
    const std::map<std::tuple<std::uint32_t, StringIndex, std::uint32_t>, CandidateRange>& candidates,
    Nanoseconds span_ns) {
  const CandidateRange* best = nullptr;
  const auto is_better = [](const CandidateRange& a, const CandidateRange& b) {
    return std::tie(b.named, b.launches, b.covered_ns, a.stem) < std::tie(a.named, a.launches, a.covered_ns, b.stem);
  };
  for (const auto& [key, candidate] : candidates) {
    if (candidate.ranges.size() < fewest_steps) continue;
    if (!candidate.named && 2 * candidate.covered_ns < span_ns) continue;
    if (best == nullptr || is_better(candidate, *best)) best = &candidate;
  }
  return best;
}

/// What was launched after the last range.
struct KernelsAfter {
  Interval gpu;
  Nanoseconds first_call_ns = 0;
  Nanoseconds busy_ns = 0;  ///< summed over kernels
};

/// A range that was open when the capture stopped is not recorded: kernels launched after the last one are one more
/// step if they work at least half as long as those of a step. `busy_ns`: of each step, summed over kernels.
void add_open_step(std::vector<Nanoseconds> busy_ns, const std::optional<KernelsAfter>& after, Steps& steps,
                   HostSteps& host) {
  if (steps.start_ns.empty()) return;
  if (!after || busy_ns.empty() || after->gpu.start_ns <= steps.start_ns.back()) return;
  if (2 * after->busy_ns < lower_median(busy_ns)) return;
  steps.start_ns.push_back(after->gpu.start_ns);
  steps.end_ns = std::max(steps.end_ns, after->gpu.end_ns);
  host.begin_ns.push_back(after->first_call_ns);
  host.end_ns = std::numeric_limits<Nanoseconds>::max();
}

/// The host runs ahead of the GPU, so a step begins where the first of its kernels runs, not where its range begins.
Steps steps_on_gpu(const std::vector<Interval>& ranges, const RankEvents& events,
                   std::optional<std::int64_t> first_number, HostSteps& host) {
  std::vector<Nanoseconds> start(ranges.size(), no_time), end(ranges.size(), no_time), busy_ns(ranges.size(), 0);
  std::optional<KernelsAfter> kernels_after;  // all ranges
  std::size_t after = 0;                      // the range after the one of the latest launch
  for_each_launched_kernel(events, [&](const Kernel& kernel, const ApiCall& launch) {
    if (launch.start_ns > ranges.back().end_ns) {
      const KernelsAfter before =
          kernels_after.value_or(KernelsAfter{{kernel.start_ns, kernel.end_ns}, launch.start_ns, 0});
      kernels_after = {{std::min(before.gpu.start_ns, kernel.start_ns), std::max(before.gpu.end_ns, kernel.end_ns)},
                       std::min(before.first_call_ns, launch.start_ns),
                       before.busy_ns + kernel.end_ns - kernel.start_ns};
      return;
    }
    after = upper_bound_near(ranges, after, launch.start_ns,
                             [](Nanoseconds time_ns, const Interval& range) { return time_ns < range.start_ns; });
    if (after == 0 || launch.start_ns > ranges[after - 1].end_ns) return;
    const std::size_t i = after - 1;
    start[i] = start[i] == no_time ? kernel.start_ns : std::min(start[i], kernel.start_ns);
    end[i] = end[i] == no_time ? kernel.end_ns : std::max(end[i], kernel.end_ns);
    busy_ns[i] += kernel.end_ns - kernel.start_ns;
  });
  Steps steps;
  steps.source = StepSource::nvtx;
  steps.numbered = first_number.has_value();
  for (std::size_t i = 0; i < start.size(); ++i) {
    if (start[i] == no_time) continue;
    if (steps.start_ns.empty()) {
      steps.first_number = first_number.value_or(0) + (steps.numbered ? static_cast<std::int64_t>(i) : 0);
    } else if (start[i - 1] == no_time) {
      // A step without kernels on this GPU has no place; those after it are not where counting would put them.
      steps.numbered = false;
    }
    steps.start_ns.push_back(steps.start_ns.empty() ? start[i] : std::max(start[i], steps.start_ns.back() + 1));
    steps.end_ns = steps.start_ns.size() == 1 ? end[i] : std::max(steps.end_ns, end[i]);  // times may be negative
    host.begin_ns.push_back(ranges[i].start_ns);
    host.end_ns = ranges[i].end_ns;
  }
  add_open_step(std::move(busy_ns), kernels_after, steps, host);
  return steps.start_ns.size() < fewest_steps ? Steps{} : steps;
}

Steps steps_from_ranges(const RankEvents& events, HostSteps& host) {
  RunMap<std::uint32_t, std::int64_t> launches_of_thread;
  std::optional<Interval> launching;
  for_each_launched_kernel(events, [&](const Kernel&, const ApiCall& launch) {
    ++launches_of_thread[launch.thread_id];
    if (!launching) launching = Interval{launch.start_ns, launch.start_ns};
    launching = {std::min(launching->start_ns, launch.start_ns), std::max(launching->end_ns, launch.start_ns)};
  });
  if (!launching) return {};

  // Millions of ranges have hundreds of names: what a name tells is found out once. Ranges with the same string mostly
  // are of the same candidate.
  struct Label {
    std::optional<NumberedName> name;
    std::uint32_t stem = 0, thread_id = 0;
    StringIndex domain = 0;
    CandidateRange* latest = nullptr;
  };
  std::vector<Label> labels(events.trace.strings.size());
  std::unordered_map<std::string_view, std::uint32_t> stems;
  std::map<std::tuple<std::uint32_t, StringIndex, std::uint32_t>, CandidateRange> candidates;
  for (const NvtxRange& range : events.process.nvtx_ranges) {
    if (range.kind == NvtxKind::mark || range.end_ns == no_time || range.is_nccl_call) continue;
    Label& label = labels[range.text];
    if (!label.name) {
      label.name = split_number(events.trace.strings[range.text]);
      label.stem = stems.try_emplace(label.name->stem, static_cast<std::uint32_t>(stems.size())).first->second;
    }
    if (label.latest == nullptr || label.thread_id != range.thread_id || label.domain != range.domain) {
      label.thread_id = range.thread_id;
      label.domain = range.domain;
      const auto [entry, is_new] = candidates.try_emplace({range.thread_id, range.domain, label.stem});
      label.latest = &entry->second;
      if (is_new) {
        label.latest->stem = label.name->stem;
        label.latest->named = names_a_step(label.name->stem);
        label.latest->launches = launches_of_thread[range.thread_id];
      }
    }
    label.latest->add({range.start_ns, range.end_ns}, label.name->number);
  }
  const CandidateRange* chosen = choose(candidates, launching->end_ns - launching->start_ns);
  if (chosen == nullptr) return {};
  return steps_on_gpu(chosen->ranges, events, chosen->numbered ? chosen->first_number : std::nullopt, host);
}

/// A kernel of one block works on a scalar: what a program logs now and then, no part of its steps.
bool is_phase(const KernelKind& kind) {
  return std::int64_t{kind.grid_x} * kind.grid_y * kind.grid_z > 1;
}

/// Kinds of kernels that differ in no more than stream and node of a graph have one number.
std::vector<std::uint32_t> number_kinds(const std::vector<KernelKind>& kinds) {
  std::map<std::tuple<StringIndex, std::int32_t, std::int32_t, std::int32_t, std::int32_t, std::int32_t, std::int32_t>,
           std::uint32_t>
      numbers;
  std::vector<std::uint32_t> number_of;
  for (const KernelKind& k : kinds) {
    const auto key = std::tuple(k.demangled_name, k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z);
    number_of.push_back(numbers.try_emplace(key, static_cast<std::uint32_t>(numbers.size())).first->second);
  }
  return number_of;
}

/// From the order of kernels, collectives among them.
Steps steps_by_order(const RankEvents& events, HostSteps& host) {
  const std::vector<std::uint32_t> number_of = number_kinds(events.device.kernel_kinds);
  std::vector<bool> marks(number_of.size(), false);
  for (std::size_t k = 0; k < number_of.size(); ++k)
    if (!events.communication_kinds[k] && is_phase(events.device.kernel_kinds[k])) marks[number_of[k]] = true;
  if (std::find(marks.begin(), marks.end(), true) == marks.end()) marks.assign(marks.size(), true);
  std::vector<OrderedKernel> kernels;
  kernels.reserve(events.device.kernels.size());
  Steps steps;
  Nanoseconds end_ns = no_time;
  for (const Kernel& kernel : events.device.kernels) {
    constexpr Nanoseconds most = std::numeric_limits<std::uint32_t>::max();
    const Nanoseconds idle_ns = end_ns == no_time ? most : std::max<Nanoseconds>(0, kernel.start_ns - end_ns);
    kernels.push_back({number_of[kernel.kind], static_cast<std::uint32_t>(std::min(idle_ns, most))});
    end_ns = std::max(end_ns, kernel.end_ns);
  }
  const std::vector<std::size_t> starts = recurrences(kernels, marks);
  const auto launched_ns = [&](std::size_t k) {
    const Kernel kernel = events.device.kernels[k];
    const auto launch = events.launches.find(kernel.correlation_id, kernel.start_ns);
    return launch ? launch->start_ns : kernel.start_ns;
  };
  for (const std::size_t first : starts) {
    const Kernel kernel = events.device.kernels[first];
    const Nanoseconds begin_ns = launched_ns(first);
    steps.start_ns.push_back(steps.start_ns.empty() ? kernel.start_ns
                                                    : std::max(kernel.start_ns, steps.start_ns.back() + 1));
    host.begin_ns.push_back(host.begin_ns.empty() ? begin_ns : std::max(begin_ns, host.begin_ns.back() + 1));
  }
  if (steps.start_ns.empty()) return steps;
  // The last one has as many kernels as the others; what follows is no step.
  std::vector<std::size_t> lengths;
  for (std::size_t i = 1; i < starts.size(); ++i) lengths.push_back(starts[i] - starts[i - 1]);
  const std::size_t end = lengths.empty() ? kernels.size() : starts.back() + lower_median(lengths);
  host.end_ns = end < kernels.size() ? launched_ns(end) : std::numeric_limits<Nanoseconds>::max();
  steps.source = StepSource::periodicity;
  steps.end_ns = end_ns;
  return steps;
}

}  // namespace

std::int32_t Steps::index_of(Nanoseconds time_ns) const {
  if (start_ns.empty() || time_ns > end_ns) return -1;
  return static_cast<std::int32_t>(std::upper_bound(start_ns.begin(), start_ns.end(), time_ns) - start_ns.begin()) - 1;
}

Steps find_steps(const RankEvents& events, HostSteps* host) {
  HostSteps of_ranges, by_order;
  Steps steps = steps_from_ranges(events, of_ranges);
  const bool has_ranges = !steps.start_ns.empty();
  if (!has_ranges) steps = steps_by_order(events, by_order);
  if (host != nullptr) *host = std::move(has_ranges ? of_ranges : by_order);
  return steps;
}

}  // namespace nsys_explain::analysis
