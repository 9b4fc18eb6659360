#include "analysis/tables/tables.hpp"

#include <optional>
#include "analysis/statistics/statistics.hpp"
#include "analysis/trace/rank_events.hpp"
#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis {
namespace {

using enum ColumnKind;
constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

/// GPU work launched in a phase.
struct Work {
  std::int64_t operations = 0, kernels = 0;
  Nanoseconds kernel_ns = 0;
  Nanoseconds other_thread_kernel_ns = 0;  ///< of that: launched by threads without phases of their own
  Nanoseconds gpu_start_ns = no_time, gpu_end_ns = no_time;

  void add(const Launch& launch, bool other_thread) {
    ++operations;
    if (launch.kernel >= 0) {
      const Nanoseconds duration_ns = launch.gpu_end_ns - launch.gpu_start_ns;
      ++kernels;
      kernel_ns += duration_ns;
      if (other_thread) other_thread_kernel_ns += duration_ns;
    }
    gpu_start_ns = gpu_start_ns == no_time ? launch.gpu_start_ns : std::min(gpu_start_ns, launch.gpu_start_ns);
    gpu_end_ns = gpu_end_ns == no_time ? launch.gpu_end_ns : std::max(gpu_end_ns, launch.gpu_end_ns);
  }
};

struct PhaseRange {
  std::size_t phase = 0;  ///< index of its name
  std::int64_t number = -1;
  std::uint32_t thread_id = 0;
  Nanoseconds start_ns = 0, end_ns = 0;
  Work work;

  Nanoseconds finished_ns() const { return work.gpu_end_ns == no_time ? end_ns : work.gpu_end_ns; }
};

struct Phases {
  std::vector<std::string> names;  ///< in order of their first range
  std::vector<PhaseRange> ranges;  ///< by start
  Work outside;
};

Phases find_phases(const RankEvents& events, const PhaseNames& rules) {
  Phases phases;
  std::unordered_map<StringIndex, std::optional<RecognisedPhase>> known;
  std::map<std::string, std::size_t> number_of;
  std::map<std::pair<std::size_t, std::uint32_t>, Nanoseconds> last_end;  // by phase and thread
  Nanoseconds open_end_ns = no_time;
  for (const NvtxRange& range : events.process.nvtx_ranges) {
    if (range.kind == NvtxKind::mark || range.is_nccl_call) continue;
    const auto [entry, is_new] = known.try_emplace(range.text);
    if (is_new) entry->second = rules.recognise(events.trace.strings[range.text]);
    if (!entry->second) continue;
    if (range.end_ns == no_time && open_end_ns == no_time) open_end_ns = last_time(events.trace);
    const Nanoseconds end_ns = range.end_ns == no_time ? open_end_ns : range.end_ns;
    const auto [name, is_new_phase] = number_of.try_emplace(entry->second->name, phases.names.size());
    if (is_new_phase) phases.names.push_back(entry->second->name);
    const auto [last, is_first] = last_end.try_emplace({name->second, range.thread_id}, end_ns);
    if (!is_first && end_ns <= last->second) continue;  // inside one of the same phase
    last->second = end_ns;
    phases.ranges.push_back({name->second, entry->second->number, range.thread_id, range.start_ns, end_ns, {}});
  }
  return phases;
}

/// Gives every launch of one thread to the innermost of these ranges that is no step, and to the innermost step.
void attribute(const ThreadLaunches& launches, const std::vector<std::size_t>& candidates, bool other_thread,
               Phases& phases) {
  std::vector<std::size_t> open;  // by start, so that the innermost comes last
  std::size_t next = 0;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const Launch launch = launches[i];
    const Nanoseconds at_ns = launch.call_start_ns;
    std::erase_if(open, [&](std::size_t r) { return phases.ranges[r].end_ns < at_ns; });
    for (; next < candidates.size() && phases.ranges[candidates[next]].start_ns <= at_ns; ++next)
      if (phases.ranges[candidates[next]].end_ns >= at_ns) open.push_back(candidates[next]);
    std::size_t step = nowhere, other = nowhere;
    for (const std::size_t r : open) (phases.names[phases.ranges[r].phase] == phase::step ? step : other) = r;
    if (step != nowhere) phases.ranges[step].work.add(launch, other_thread);
    if (other != nowhere) phases.ranges[other].work.add(launch, other_thread);
    if (step == nowhere && other == nowhere) phases.outside.add(launch, false);
  }
}

void attribute_launches(const DeviceLaunches& launches, Phases& phases) {
  std::map<std::uint32_t, std::vector<std::size_t>> of_thread;
  std::vector<std::size_t> all;
  for (std::size_t r = 0; r < phases.ranges.size(); ++r) {
    of_thread[phases.ranges[r].thread_id].push_back(r);
    all.push_back(r);
  }
  for (const auto& [thread, of_this] : launches.threads) {
    const auto own = of_thread.find(thread);
    attribute(of_this, own == of_thread.end() ? all : own->second, own == of_thread.end(), phases);
  }
  phases.outside.kernels += launches.kernels_without_call;
  phases.outside.kernel_ns += launches.kernel_ns_without_call;
}

Table phases_table(const Phases& phases) {
  Table table = make_table(schema::phases);
  if (phases.names.empty()) return table;
  struct Row {
    std::int64_t ranges = 0;
    Nanoseconds host_ns = 0, projected_ns = 0;
    Work work;
  };
  std::vector<Row> sums(phases.names.size() + 1);
  for (const PhaseRange& range : phases.ranges) {
    Row& sum = sums[range.phase];
    ++sum.ranges;
    sum.host_ns += range.end_ns - range.start_ns;
    if (range.work.operations > 0) sum.projected_ns += range.work.gpu_end_ns - range.work.gpu_start_ns;
    sum.work.operations += range.work.operations;
    sum.work.kernels += range.work.kernels;
    sum.work.kernel_ns += range.work.kernel_ns;
    sum.work.other_thread_kernel_ns += range.work.other_thread_kernel_ns;
  }
  sums.back().work = phases.outside;
  RowWriter row(table);
  for (std::size_t p = 0; p < sums.size(); ++p) {
    row << (p < phases.names.size() ? std::string_view(phases.names[p]) : outside_phases) << sums[p].ranges
        << sums[p].host_ns << sums[p].projected_ns << sums[p].work.operations << sums[p].work.kernels
        << sums[p].work.kernel_ns << sums[p].work.other_thread_kernel_ns;
  }
  return table;
}

Table steps_table(const Phases& phases) {
  Table table = make_table({"nvtx_steps",
                            "The first 2,000 steps of each trace rank, by start",
                            {{"step", integer, "", "number in the label, else counted from 0"},
                             {"start_ns", ColumnKind::time, "ns", "of the NVTX range on the host"},
                             {"host_ns", integer, "ns", "its duration"},
                             {"gpu_start_ns", ColumnKind::time, "ns", "first start of GPU work launched in it"},
                             {"gpu_end_ns", ColumnKind::time, "ns", "last end"},
                             {"gpu_operations", integer, "", ""},
                             {"kernel_ns", integer, "ns", "sum of kernel durations"}}});
  RowWriter row(table);
  std::int64_t counted = 0;
  for (const PhaseRange& range : phases.ranges) {
    if (phases.names[range.phase] != phase::step) continue;
    if (counted == static_cast<std::int64_t>(most_steps)) break;
    row << (range.number >= 0 ? range.number : counted) << range.start_ns << range.end_ns - range.start_ns
        << range.work.gpu_start_ns << range.work.gpu_end_ns << range.work.operations << range.work.kernel_ns;
    ++counted;
  }
  return table;
}

Table serving_table(const Phases& phases) {
  Table table = make_table(schema::serving);
  std::vector<std::int64_t> first_token, next_token;
  const PhaseRange* previous = nullptr;
  for (const PhaseRange& range : phases.ranges) {
    const std::string& name = phases.names[range.phase];
    if (name != phase::prefill && name != phase::decode) continue;
    if (name == phase::prefill) first_token.push_back(range.finished_ns() - range.start_ns);
    if (name == phase::decode && previous != nullptr && range.finished_ns() > previous->finished_ns())
      next_token.push_back(range.finished_ns() - previous->finished_ns());
    previous = &range;
  }
  RowWriter row(table);
  const auto write = [&](std::string_view latency, std::vector<std::int64_t>& values) {
    if (values.empty()) return;
    row << latency;
    write_statistics(row, summarise(values));
  };
  write("time_to_first_token", first_token);
  write("time_per_output_token", next_token);
  return table;
}

}  // namespace

std::vector<Table> phase_tables(const RankEvents& events, const DeviceLaunches& launches,
                                const std::vector<PhaseRule>& rules) {
  Phases phases = find_phases(events, PhaseNames(rules));
  if (!phases.ranges.empty()) attribute_launches(launches, phases);
  return {phases_table(phases), steps_table(phases), serving_table(phases)};
}

namespace {

/// The compute kernels of a step, by start.
struct StepKernels {
  std::vector<std::uint32_t> symbols;
  std::vector<Interval> times;
};

/// By kernel kind: equal for equal name and grid.
std::vector<std::uint32_t> symbols_of_kinds(const DeviceTrace& device) {
  std::map<std::tuple<StringIndex, std::int32_t, std::int32_t, std::int32_t>, std::uint32_t> known;
  std::vector<std::uint32_t> symbols;
  for (const KernelKind& kind : device.kernel_kinds) {
    const auto next = static_cast<std::uint32_t>(known.size());
    symbols.push_back(
        known.try_emplace({kind.demangled_name, kind.grid_x, kind.grid_y, kind.grid_z}, next).first->second);
  }
  return symbols;
}

/// Calls `use(kernel, step)` for the compute kernels of steps, by start.
template <class Use>
void for_each_compute_kernel(const RankEvents& events, const Steps& steps, const Use& use) {
  std::size_t begun = 0;
  for (const Kernel& kernel : events.device.kernels) {
    if (kernel.start_ns > steps.end_ns) break;
    while (begun < steps.start_ns.size() && steps.start_ns[begun] <= kernel.start_ns) ++begun;
    if (begun > 0 && !events.is_communication(kernel)) use(kernel, begun - 1);
  }
}

/// Calls `use(kernels)` for each step in turn that is `wanted` and has compute kernels; keeps no more than one.
template <class Wanted, class Use>
void for_each_step(const RankEvents& events, const Steps& steps, const Wanted& wanted, const Use& use) {
  const std::vector<std::uint32_t> symbols = symbols_of_kinds(events.device);
  StepKernels kernels;
  std::size_t current = 0;
  const auto finish = [&] {
    if (!kernels.symbols.empty()) use(kernels);
    kernels.symbols.clear();
    kernels.times.clear();
  };
  for_each_compute_kernel(events, steps, [&](const Kernel& kernel, std::size_t step) {
    if (!wanted(step)) return;
    if (step != current) finish();
    current = step;
    kernels.symbols.push_back(symbols[kernel.kind]);
    kernels.times.push_back({kernel.start_ns, kernel.end_ns});
  });
  finish();
}

/// The step with as many compute kernels as the median one; nothing where there are no steps.
std::optional<std::size_t> step_of_median_length(const RankEvents& events, const Steps& steps) {
  std::vector<std::pair<std::size_t, std::size_t>> lengths(steps.start_ns.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i].second = i;
  for_each_compute_kernel(events, steps, [&](const Kernel&, std::size_t step) { ++lengths[step].first; });
  std::sort(lengths.begin(), lengths.end());
  return lengths.empty() ? std::nullopt : std::optional(lengths[lengths.size() / 2].second);
}

struct LayerSums {
  std::int64_t steps = 0, kernels = 0, collectives = 0;
  std::array<Nanoseconds, gpu_part_count> parts_ns{};
};

/// One execution of a layer.
struct LayerExecution {
  Interval time;
  LayerSums* layer = nullptr;
};

class LayersOfRank {
 public:
  LayersOfRank(const RankEvents& events, const Steps& steps) {
    const std::optional<std::size_t> usual = step_of_median_length(events, steps);
    for_each_step(
        events, steps, [&](std::size_t step) { return step == usual; },
        [&](const StepKernels& kernels) { find_repeats(kernels); });
    if (repeats_.empty()) return;
    for_each_step(
        events, steps, [](std::size_t) { return true; }, [&](const StepKernels& kernels) { add_executions(kernels); });
    std::sort(executions_.begin(), executions_.end(),
              [](const LayerExecution& a, const LayerExecution& b) { return a.time.start_ns < b.time.start_ns; });
    add_times(events);
    for (const TraceArrival& arrival : events.arrivals) {
      const auto after = std::partition_point(executions_.begin(), executions_.end(), [&](const LayerExecution& one) {
        return one.time.start_ns <= arrival.enter.ns;
      });
      if (after != executions_.begin() && arrival.enter.ns < std::prev(after)->time.end_ns)
        ++std::prev(after)->layer->collectives;
    }
  }

  void write(RowWriter& row) const {
    std::int64_t number = 0;
    for (std::size_t pass = 0; pass < repeats_.size(); ++pass) {
      for (std::size_t i = 0; i < repeats_[pass].count; ++i) {
        const LayerSums& layer = layers_[static_cast<std::size_t>(number++)];
        Nanoseconds time_ns = 0;
        for (const Nanoseconds part_ns : layer.parts_ns) time_ns += part_ns;
        const auto part_ns = [&](GpuPart part) { return layer.parts_ns[static_cast<std::size_t>(part)]; };
        row << static_cast<std::int64_t>(pass) << static_cast<std::int64_t>(i) << layer.steps << layer.kernels
            << time_ns << part_ns(GpuPart::compute) << part_ns(GpuPart::communication)
            << part_ns(GpuPart::copy) + part_ns(GpuPart::opaque_graph) << part_ns(GpuPart::idle) << layer.collectives;
      }
    }
  }

 private:
  void find_repeats(const StepKernels& usual) {
    constexpr std::size_t most_kernels = 20'000;  // to compare all with all takes 0.1 s
    if (usual.symbols.size() > most_kernels) return;
    usual_ = usual.symbols;
    repeats_ = innermost_repeats(usual_);
    std::size_t count = 0;
    for (const TandemRepeat& repeat : repeats_) count += repeat.count;
    layers_.resize(count);
  }

  void add_executions(const StepKernels& step) {
    if (step.symbols != usual_) return;
    std::size_t number = 0;
    for (const TandemRepeat& repeat : repeats_) {
      for (std::size_t i = 0; i < repeat.count; ++i) {
        const std::size_t first = repeat.first + i * repeat.period, next = first + repeat.period;
        Nanoseconds end_ns = 0;
        for (std::size_t k = first; k < next; ++k) end_ns = std::max(end_ns, step.times[k].end_ns);
        if (i + 1 < repeat.count) end_ns = step.times[next].start_ns;
        if (next < step.times.size()) end_ns = std::min(end_ns, step.times[next].start_ns);
        LayerSums& layer = layers_[number++];
        ++layer.steps;
        layer.kernels += static_cast<std::int64_t>(repeat.period);
        executions_.push_back({{step.times[first].start_ns, end_ns}, &layer});
      }
    }
  }

  void add_times(const RankEvents& events) {
    auto execution = executions_.begin();
    for_each_gpu_part(events.device, events.communication_kinds, [&](GpuPart part, const Interval& time) {
      while (execution != executions_.end() && execution->time.end_ns <= time.start_ns) ++execution;
      for (auto one = execution; one != executions_.end() && one->time.start_ns < time.end_ns; ++one)
        one->layer->parts_ns[static_cast<std::size_t>(part)] +=
            std::min(one->time.end_ns, time.end_ns) - std::max(one->time.start_ns, time.start_ns);
    });
  }

  std::vector<std::uint32_t> usual_;
  std::vector<TandemRepeat> repeats_;
  std::vector<LayerSums> layers_;
  std::vector<LayerExecution> executions_;  ///< ascending, apart from each other
};

}  // namespace

Table layers_table(const RankEvents& events, const Steps& steps) {
  Table table = make_table(schema::layers);
  if (steps.source == StepSource::none) return table;
  RowWriter row(table);
  LayersOfRank(events, steps).write(row);
  return table;
}

}  // namespace nsys_explain::analysis
