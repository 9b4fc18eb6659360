#include "analysis/tables/tables.hpp"

#include "analysis/trace/gpu_activity.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {
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

/// Calls `use(kernels)` for each step in turn that is `wanted` and has compute kernels; keeps no more than one.
template <class Wanted, class Use>
void for_each_step(const RankEvents& events, const Steps& steps, const Wanted& wanted, const Use& use) {
  const std::vector<std::uint32_t> symbols = symbols_of_kinds(events.device);
  StepKernels kernels;
  std::int32_t current = -1;
  const auto finish = [&] {
    if (!kernels.symbols.empty()) use(kernels);
    kernels.symbols.clear();
    kernels.times.clear();
  };
  for (const Kernel& kernel : events.device.kernels) {  // by start, so those of a step come in a row
    const std::int32_t step = steps.index_of(kernel.start_ns);
    if (step < 0 || events.is_communication(kernel) || !wanted(step)) continue;
    if (step != current) finish();
    current = step;
    kernels.symbols.push_back(symbols[kernel.kind]);
    kernels.times.push_back({kernel.start_ns, kernel.end_ns});
  }
  finish();
}

/// The step with as many compute kernels as the median one; -1: there is none.
std::int32_t step_of_median_length(const RankEvents& events, const Steps& steps) {
  std::vector<std::pair<std::size_t, std::int32_t>> lengths(steps.start_ns.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i].second = static_cast<std::int32_t>(i);
  for (const Kernel& kernel : events.device.kernels) {
    const std::int32_t step = steps.index_of(kernel.start_ns);
    if (step >= 0 && !events.is_communication(kernel)) ++lengths[static_cast<std::size_t>(step)].first;
  }
  std::sort(lengths.begin(), lengths.end());
  return lengths.empty() ? -1 : lengths[lengths.size() / 2].second;
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
    const std::int32_t usual = step_of_median_length(events, steps);
    for_each_step(
        events, steps, [&](std::int32_t step) { return step == usual; },
        [&](const StepKernels& kernels) { find_repeats(kernels); });
    if (repeats_.empty()) return;
    for_each_step(
        events, steps, [](std::int32_t) { return true; }, [&](const StepKernels& kernels) { add_executions(kernels); });
    std::sort(executions_.begin(), executions_.end(),
              [](const LayerExecution& a, const LayerExecution& b) { return a.time.start_ns < b.time.start_ns; });
    add_times(events);
    for (const Arrival& arrival : events.arrivals) {
      const auto after = std::partition_point(executions_.begin(), executions_.end(), [&](const LayerExecution& one) {
        return one.time.start_ns <= arrival.enter_ns;
      });
      if (after != executions_.begin() && arrival.enter_ns < std::prev(after)->time.end_ns)
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
