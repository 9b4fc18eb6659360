#include "analysis/window/steps.hpp"

#include <map>

#include "analysis/window/step_candidates.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {
namespace {

/// The host runs ahead of the GPU, so a step begins where the first of its kernels runs, not where its range begins.
Steps steps_on_gpu(const StepRanges& chosen, const RankEvents& events, HostSteps& host) {
  const std::vector<Interval>& ranges = chosen.ranges;
  std::vector<Nanoseconds> start(ranges.size(), no_time), end(ranges.size(), no_time);
  std::size_t after = 0;  // the range after the one of the latest launch
  for_each_launched_kernel(events, [&](const Kernel& kernel, Nanoseconds launched_ns) {
    after = upper_bound_near(ranges, after, launched_ns,
                             [](Nanoseconds time_ns, const Interval& range) { return time_ns < range.start_ns; });
    if (after == 0 || launched_ns > ranges[after - 1].end_ns) return;
    const std::size_t i = after - 1;
    start[i] = start[i] == no_time ? kernel.start_ns : std::min(start[i], kernel.start_ns);
    end[i] = end[i] == no_time ? kernel.end_ns : std::max(end[i], kernel.end_ns);
  });
  Steps steps;
  steps.source = StepSource::nvtx;
  steps.numbered = chosen.numbered;
  for (std::size_t i = 0; i < start.size(); ++i) {
    if (chosen.is_missing[i] && !steps.start_ns.empty()) start[i] = end[i] = ranges[i].start_ns;
    if (start[i] == no_time) continue;
    if (steps.start_ns.empty()) {
      steps.first_number = steps.numbered ? chosen.first_number + static_cast<std::int64_t>(i) : 0;
    } else if (start[i - 1] == no_time) {
      // A step without kernels on this GPU has no place; those after it are not where counting would put them.
      steps.numbered = false;
    }
    steps.start_ns.push_back(steps.start_ns.empty() ? start[i] : std::max(start[i], steps.start_ns.back() + 1));
    steps.end_ns = steps.start_ns.size() == 1 ? end[i] : std::max(steps.end_ns, end[i]);  // times may be negative
    host.begin_ns.push_back(ranges[i].start_ns);
    host.end_ns = ranges[i].end_ns;
  }
  return steps;
}

Steps steps_from_ranges(const RankEvents& events, HostSteps& host) {
  const StepRanges chosen = choose_step_ranges(events);
  Steps steps = steps_on_gpu(chosen, events, host);
  return steps.start_ns.empty() ? Steps{} : steps;
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
